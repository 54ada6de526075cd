"""`python -m stepbench.cli`."""

import sys

from stepbench.cli.parser import main

sys.exit(main())
