"""Looking at the page as people do: what it shows, and when it has finished."""

ANSWERS = "performance.getEntriesByName('airpool:answer').length"
FAULTS = (
    "[...document.querySelectorAll('#knobs .wrong, #knobs .failed')].filter(e => !e.hidden).map(e => e.textContent)"
)


def answered(tab, before=None):
    """Waits until the page shows what was set, or says what is wrong. before: `answers(tab)` before it was set."""
    if before is not None:
        tab.wait_for_function(f"n => {ANSWERS} > n || ({FAULTS}).length > 0", arg=before)
    tab.wait_for_function(
        "() => document.querySelector('#summary').getAttribute('aria-busy') === 'false'"
        " && document.querySelector('#summary-worst').dataset.value !== undefined"
    )


def done(tab):
    """Waits until the accuracy is there too."""
    answered(tab)
    tab.wait_for_function(
        "() => !document.querySelector('#summary .predicted').classList.contains('stale')"
        " && document.querySelector('#summary-predicted').dataset.value !== undefined"
    )


def answers(tab):
    """Number of accounts that were painted so far."""
    return tab.evaluate(ANSWERS)


def faults(tab):
    """Sentences that say what is wrong with the settings."""
    return tab.evaluate(FAULTS)


def state(tab):
    """What the address holds: settings and what is looked at. It is written a moment after a change."""
    tab.wait_for_timeout(300)
    return tab.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def numbers(tab) -> dict[str, str]:
    """The numbers of the summary, as they were received."""
    values = tab.evaluate("[...document.querySelectorAll('#summary .value')].map(each => each.dataset.value)")
    return dict(zip(("device", "local", "object", "paper", "accuracy"), values, strict=True))


def all_groups_open(tab):
    tab.evaluate("for (const each of document.querySelectorAll('#knobs details')) each.open = true")
