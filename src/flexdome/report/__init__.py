"""Results as one page: a single HTML file that needs no network, no server and no other file."""

from flexdome.report.page import Page, make_page, write_report
from flexdome.report.serving import ReportServer
from flexdome.report.thinning import stretches, thin

__all__ = ["Page", "ReportServer", "make_page", "stretches", "thin", "write_report"]
