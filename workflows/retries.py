"""Every retry policy and time limit that the workflows state, by name."""

from datetime import timedelta

from temporalio.common import Priority, RetryPolicy

# Bookkeeping: five quick seconds inside the workflow task, then patiently outside it (design section 5). The number of
# attempts ends it: the time limit is one for each attempt, whatever its name says.
AT_HAND = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=1),
    maximum_attempts=7,
)
AT_HAND_FOR = timedelta(seconds=5)
UNTIL_IT_WORKS = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(seconds=30)
)
BOOKKEEPING_FOR = timedelta(seconds=30)

# A card is posted until the row is final; a platform that names its own delay is given that one.
POSTING = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(seconds=60)
)
POSTING_FOR = timedelta(seconds=120)

# The caller's call and a round of the sweep: the first is never tried twice, the second comes again by itself.
ONCE = RetryPolicy(maximum_attempts=1)
ROUND_FOR = timedelta(seconds=20)
ROUND_PICKED_UP_IN = timedelta(seconds=5)

# One timer: never shorter than the first; when it fires before the row is due, up to the second.
SHORTEST_WAIT = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=60)

# Priority keys: what a person has just answered goes before cards, cards before housekeeping.
ANSWERED = Priority(priority_key=2)
ASKED = Priority(priority_key=3)
HOUSEKEEPING = Priority(priority_key=4)
