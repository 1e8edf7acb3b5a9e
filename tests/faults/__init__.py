"""The real job under load while things break, and a check of all that it delivered.

    writing ──► broker ──► proxy ──► supervised job ──► proxy ──► broker ──► reading ──► check
                  ▲          ▲             ▲
                  └──────────┴── kinds ────┘

`make test-faults` runs it. `system` starts the parts, `writing` is the load, a part of it in `transactions`, `kinds`
says what breaks, `commits` how long nothing was committed, `reading` and `check` what was delivered, `report` what
came of it. Nobody but the job's own supervisor starts it again. `spoiling` is another run: nothing breaks, but most
of what is written is no event and no subscription.
"""
