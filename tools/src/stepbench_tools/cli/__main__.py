"""`python -m stepbench_tools.cli`."""

import sys

from stepbench_tools.cli.parser import main

sys.exit(main())
