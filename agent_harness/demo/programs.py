"""The small programs of the demo, each with one bug that its own tests find. `@words@` are filled in by the seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    Attributes:
        modules: names that its module may have.
        source: the module; `@LINE@` is where the bug is.
        right: the line as it should be.
        wrong: the line with the bug.
        failing: name of the test method that fails until the line is mended.
        tests: the body of the test class.
        choices: word -> values that it may have.
        about: what the program does, for its README.
    """

    modules: tuple[str, ...]
    source: str
    right: str
    wrong: str
    failing: str
    tests: str
    choices: dict[str, tuple[str, ...]]
    about: str


PAGES = Program(
    modules=("pages", "paging", "sheets"),
    about="Cuts long lists into @unit@s.",
    choices={"unit": ("page", "sheet", "screen"), "size": ("4", "5", "6", "8")},
    source='''"""Cuts long lists into @unit@s."""


def @unit@_count(total, per_@unit@):
    """How many @unit@s hold that many items; the last one may be short."""
    if total <= 0:
        return 0
@LINE@


def @unit@_items(items, number, per_@unit@):
    """The items on @unit@ `number`; @unit@s count from 1."""
    if not 1 <= number <= @unit@_count(len(items), per_@unit@):
        raise IndexError(f"there is no @unit@ {number}")
    first = (number - 1) * per_@unit@
    return items[first : first + per_@unit@]
''',
    right="    return -(-total // per_@unit@)",
    wrong="    return total // per_@unit@",
    failing="test_a_short_last_@unit@_counts",
    tests="""    def test_nothing_needs_no_@unit@(self):
        self.assertEqual(@module@.@unit@_count(0, @size@), 0)

    def test_full_@unit@s(self):
        self.assertEqual(@module@.@unit@_count(3 * @size@, @size@), 3)

    def test_a_short_last_@unit@_counts(self):
        self.assertEqual(@module@.@unit@_count(3 * @size@ + 1, @size@), 4)
""",
)

BOOKINGS = Program(
    modules=("bookings", "rooms", "shifts"),
    about="Keeps @thing@s from being booked twice.",
    choices={"thing": ("room", "desk", "boat"), "hour": ("7", "8", "9")},
    source='''"""Keeps @thing@s from being booked twice. Times are hours; an end is not part of a booking."""


def overlap(start, end, other_start, other_end):
    """Whether two bookings share any time."""
@LINE@


class @Thing@Plan:
    """All bookings of one @thing@."""

    def __init__(self):
        self.bookings = []

    def book(self, start, end):
        """Add a booking, unless the @thing@ is taken."""
        for other_start, other_end in self.bookings:
            if overlap(start, end, other_start, other_end):
                raise ValueError(f"the @thing@ is taken from {other_start} to {other_end}")
        self.bookings.append((start, end))
''',
    right="    return start < other_end and other_start < end",
    wrong="    return start < other_end or other_start < end",
    failing="test_one_after_the_other_is_fine",
    tests="""    def test_the_same_time_twice_is_refused(self):
        plan = @module@.@Thing@Plan()
        plan.book(@hour@, @hour@ + 2)
        with self.assertRaises(ValueError):
            plan.book(@hour@ + 1, @hour@ + 3)

    def test_one_after_the_other_is_fine(self):
        plan = @module@.@Thing@Plan()
        plan.book(@hour@, @hour@ + 2)
        plan.book(@hour@ + 2, @hour@ + 4)
        self.assertEqual(len(plan.bookings), 2)
""",
)

AVERAGES = Program(
    modules=("averages", "smoothing", "trends"),
    about="Smooths series of @thing@.",
    choices={"thing": ("readings", "prices", "levels"), "size": ("2", "3", "4")},
    source='''"""Smooths series of @thing@."""


def moving_average(@thing@, size):
    """The mean of each run of `size` neighbours, from the first to the last."""
    if size < 1:
        raise ValueError("a run has at least one of them")
    means = []
@LINE@
        means.append(sum(@thing@[first : first + size]) / size)
    return means


def peak(@thing@, size):
    """The highest mean of any run."""
    return max(moving_average(@thing@, size))
''',
    right="    for first in range(len(@thing@) - size + 1):",
    wrong="    for first in range(len(@thing@) - size):",
    failing="test_the_last_run_is_there",
    tests="""    def test_the_first_run(self):
        self.assertEqual(@module@.moving_average([2] * 9, @size@)[0], 2)

    def test_the_last_run_is_there(self):
        self.assertEqual(len(@module@.moving_average(list(range(10)), @size@)), 10 - @size@ + 1)
""",
)

CALENDAR = Program(
    modules=("calendars", "years", "dates"),
    about="Days of the @thing@ year.",
    choices={"thing": ("business", "school", "garden"), "year": ("1996", "2004", "2024", "2028")},
    source='''"""Days of the @thing@ year, by the Gregorian calendar."""

DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year):
    """Whether February has 29 days in that year."""
@LINE@


def days_in(month, year):
    """Days of a month; months count from 1."""
    return DAYS[month - 1] + (month == 2 and is_leap(year))
''',
    right="    return year % 4 == 0 and year % 100 != 0 or year % 400 == 0",
    wrong="    return year % 4 == 0 and year % 100 == 0 or year % 400 == 0",
    failing="test_february_of_a_leap_year",
    tests="""    def test_an_ordinary_february(self):
        self.assertEqual(@module@.days_in(2, @year@ - 1), 28)

    def test_february_of_a_leap_year(self):
        self.assertEqual(@module@.days_in(2, @year@), 29)

    def test_every_fourth_century(self):
        self.assertEqual(@module@.days_in(2, 2000), 29)
""",
)

DURATIONS = Program(
    modules=("durations", "clocks", "timers"),
    about="Reads and writes lengths of @thing@.",
    choices={"thing": ("recordings", "races", "calls"), "hours": ("1", "2", "3")},
    source='''"""Reads and writes lengths of @thing@, as `H:MM:SS`."""


def to_seconds(text):
    """The length in seconds."""
    hours, minutes, seconds = (int(part) for part in text.split(":"))
@LINE@


def to_text(length):
    """A length in seconds, as text."""
    minutes, seconds = divmod(length, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
''',
    right="    return hours * 3600 + minutes * 60 + seconds",
    wrong="    return hours * 60 + minutes * 60 + seconds",
    failing="test_there_and_back_again",
    tests="""    def test_under_an_hour(self):
        self.assertEqual(@module@.to_seconds("0:02:05"), 125)

    def test_there_and_back_again(self):
        self.assertEqual(@module@.to_text(@module@.to_seconds("@hours@:02:05")), "@hours@:02:05")
""",
)

WORDS = Program(
    modules=("words", "counting", "terms"),
    about="Counts the words of @thing@.",
    choices={"thing": ("letters", "songs", "reports"), "word": ("river", "stone", "cloud")},
    source='''"""Counts the words of @thing@."""


def word_counts(text):
    """How often each word is there, whatever its case."""
    counts = {}
@LINE@
        counts[word] = counts.get(word, 0) + 1
    return counts


def most_common(text):
    """The word that is there most often; the first in the alphabet among equals."""
    counts = word_counts(text)
    return min(counts, key=lambda word: (-counts[word], word))
''',
    right="    for word in text.lower().split():",
    wrong="    for word in text.split():",
    failing="test_case_does_not_matter",
    tests="""    def test_each_word_is_counted(self):
        self.assertEqual(@module@.word_counts("@word@ and @word@"), {"@word@": 2, "and": 1})

    def test_case_does_not_matter(self):
        self.assertEqual(@module@.word_counts("@word@ " + "@word@".title()), {"@word@": 2})
""",
)

NUMERALS = Program(
    modules=("numerals", "roman", "chapters"),
    about="Reads Roman numerals on @thing@.",
    choices={"thing": ("clocks", "chapters", "stones"), "numeral": ("XIX", "XXIX", "XIV"), "ones": ("III", "XX", "CC")},
    source='''"""Reads Roman numerals on @thing@."""

VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def read_numeral(text):
    """The number that a numeral stands for."""
    total = 0
    values = [VALUES[letter] for letter in text]
    for value, following in zip(values, [*values[1:], 0]):
@LINE@
    return total
''',
    right="        total += -value if value < following else value",
    wrong="        total += -value if value <= following else value",
    failing="test_equal_letters_add_up",
    tests="""    def test_a_smaller_letter_before_is_taken_away(self):
        self.assertEqual(@module@.read_numeral("IX"), 9)

    def test_equal_letters_add_up(self):
        self.assertEqual(@module@.read_numeral("@ones@"), sum(@module@.VALUES[letter] for letter in "@ones@"))
""",
)

PROGRAMS = (PAGES, BOOKINGS, AVERAGES, CALENDAR, DURATIONS, WORDS, NUMERALS)

FIRST_NAMES = ("amber", "brisk", "coral", "dusty", "eager", "fuzzy", "gentle", "hazel", "iron", "jolly")
LAST_NAMES = ("otter", "meadow", "lantern", "harbor", "pebble", "sparrow", "thimble", "willow", "anchor", "kettle")

LABELS = '''"""Short labels for narrow columns."""


def shorten(text, width):
    """The text in at most `width` characters, with a dot at the end where something is left out."""
    if len(text) <= width:
        return text
    return text[: width - 1] + "."
'''
LABEL_TESTS = """import unittest

from @package@ import labels


class LabelTests(unittest.TestCase):
    def test_short_texts_stay(self):
        self.assertEqual(labels.shorten("@package@", 40), "@package@")

    def test_long_texts_end_in_a_dot(self):
        self.assertEqual(labels.shorten("abcdefgh", 4), "abc.")
"""
MODULE_TESTS = """import unittest

from @package@ import @module@


class @Module@Tests(unittest.TestCase):
@TESTS@"""
README = """# @package@

@ABOUT@ Only the standard library is needed.

    python3 -m unittest
"""
