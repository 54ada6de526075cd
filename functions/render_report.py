"""Task `RenderReport`: all trials' outcomes in, report and summary in the bucket out."""

from stepbench.contracts.runs import RenderReportInput
from stepbench.services import observed_handler
from stepbench.stages.render_report import render_report

handler = observed_handler(render_report, RenderReportInput)
