"""Task `SeedFiles`: the files that are downloaded, where they are not there yet."""

from stepbench.contracts.transfer.rows import SeedFilesInput
from stepbench.services import observed_handler
from stepbench.stages.seed_files import seed_files

handler = observed_handler(seed_files, SeedFilesInput)
