"""Task `SeedFiles`: the files that are downloaded, where they are not there yet."""

from stepbench.contracts.transfer_rows import SeedFilesInput
from stepbench.observability import observed
from stepbench.stages.seed_files import seed_files
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(seed_files, SeedFilesInput))
