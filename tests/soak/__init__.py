"""The real job under a steady load for hours: every delivery checked, and what it takes of the machine over time.

    generator ──► broker ──► supervised job ──► broker ──► reader ──► check
                    ▲               ▲                         ▲
                    └───────────────┴──────── sampling ───────┘

`make test-soak` runs it. `system` starts the parts, `checking` has the process that reads all deliveries and the check,
`sampling` says what the processes take, `run` is the course, `growth` the verdict on each series, and `report` what is
shown of it. Load, generator and the definition of what is right are those of `rig`. `wide` is another run: one event
that a million subscriptions match.
"""
