"""The job's HTTP server, its status page, and the pages of the console.

For: serve the output of `exposition`, `status` and `verdicts`, and the answers of `streaming.console`. May enter: HTTP,
HTML, and checks of the request. Must not know: how figures are computed. It is read-only.
"""
