"""Task `SeedFiles`: the files that are downloaded, where they are not there yet."""

from stepbench.contracts.transfer.rows import SeedFilesInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.seed_files import seed_files

handler = observed(stage_handler(seed_files, SeedFilesInput))
