"""The real job under load while things break, and a check of all that it delivered.

    writing ──► broker ──► proxy ──► supervised job ──► proxy ──► broker ──► reading ──► check
                  ▲          ▲             ▲
                  └──────────┴── kinds ────┘

`make test-faults` runs it. `system` starts the parts, `load` writes, `kinds` says what breaks, `checking` how long
nothing was committed and what was delivered, `report` what came of it. Nobody but the job's own supervisor starts it
again. With `--topics` the job reads several topics and has tenants (`several.toml`); with `--past`, subscriptions begin
in the past and are replayed, by `commands` that are killed and repeated. `clock` sets the clocks of the job. `spoiling`
is another run: nothing breaks, but most of what is written is no event and no subscription.
"""
