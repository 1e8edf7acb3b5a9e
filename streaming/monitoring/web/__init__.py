"""The job's HTTP server and its status page.

For: serve the output of `exposition`, `status` and `verdicts`. May enter: HTTP, HTML, and checks of the request.
Must not know: how figures are computed. It is read-only.
"""
