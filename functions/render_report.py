"""Task `RenderReport`: all trials' outcomes in, report and summary in the bucket out."""

from stepbench.contracts.runs import RenderReportInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.render_report import render_report

handler = observed(stage_handler(render_report, RenderReportInput))
