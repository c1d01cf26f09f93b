"""The nodes of SQL92 expressions and their evaluation (RocketMQ, org.apache.rocketmq.filter.expression).

Three-valued: True, False, or None for unknown. `make_*` raise FilterSyntaxError for what RocketMQ refuses when it
parses. What fails later, for the properties of one message, is an EvaluationError, and that message does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from staticfire.system_under_test.filters.java_values import (
    INT_MAX,
    LONG_MAX,
    EvaluationError,
    Known,
    Long,
    Value,
    compare,
    parse_double,
)

DEPTH_MAX = 100  # levels of an expression: a peer may send any text, and evaluation is recursive

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]


class FilterSyntaxError(ValueError):
    """An expression that a broker refuses; the text says why."""


@dataclass(frozen=True, slots=True)  # not kw_only: only this module makes them
class Expression:
    """One node; `constant` is valid if `is_constant`. A chain of AND or OR is one node with many operands."""

    evaluate: Evaluate
    text: str
    depth: int = 1
    is_boolean: bool = False
    is_property: bool = False
    is_constant: bool = False
    constant: Value = None
    operator: str = ""
    operands: tuple[Expression, ...] = ()


def make_constant(value: Value, text: str) -> Expression:
    """A literal. TRUE, FALSE and NULL may stand where a condition is needed."""
    is_boolean = value is None or isinstance(value, bool)
    return Expression(
        lambda _: value, text, is_boolean=is_boolean, is_constant=True, constant=value
    )


def make_whole_number(text: str) -> Expression:
    """An Integer if it fits, else a Long. Raises FilterSyntaxError."""
    digits = text.rstrip("lL")
    # Longer text is too large, and slow to convert.
    value = int(digits) if len(digits) < 20 else LONG_MAX + 1
    if value > LONG_MAX:
        raise FilterSyntaxError(f"{digits:.80} is too large a number; the largest is {LONG_MAX}")
    return make_constant(value if value <= INT_MAX else Long(value), text)


def make_float(text: str) -> Expression:
    """A Double. RocketMQ accepts neither zero nor infinity. Raises FilterSyntaxError."""
    value = parse_double(text)
    if value == 0 or value == float("inf"):
        raise FilterSyntaxError(f"{text:.80} is outside the range of positive doubles")
    return make_constant(value, text)


def make_property(name: str) -> Expression:
    return Expression(lambda properties: properties.get(name), name, is_property=True)


# --- conditions ------------------------------------------------------------------------------------------------------


def as_condition(expression: Expression) -> Expression:
    """The expression as a boolean; a property is false if the message has it, whatever its value, else unknown.

    Raises FilterSyntaxError.
    """
    if expression.is_boolean:
        return expression
    if not expression.is_property:
        raise FilterSyntaxError(f"{_short(expression)} is neither a condition nor a property")
    value_of = expression.evaluate

    def cast(properties: Properties) -> Value:
        return None if value_of(properties) is None else False

    return _condition(cast, expression.text, expression)


def make_or(left: Expression, right: Expression) -> Expression:
    """Raises FilterSyntaxError."""
    return _chain("OR", left, right, decisive=True)


def make_and(left: Expression, right: Expression) -> Expression:
    """Raises FilterSyntaxError."""
    return _chain("AND", left, right, decisive=False)


def _chain(operator: str, left: Expression, right: Expression, *, decisive: bool) -> Expression:
    """AND or OR of both, added to `left` if that is such a chain already. One `decisive` operand decides its value."""
    is_longer = left.operator == operator
    operands = (*(left.operands if is_longer else (as_condition(left),)), as_condition(right))

    def evaluate(properties: Properties) -> Value:
        unknown = False
        for each in operands:
            value = each.evaluate(properties)
            if value is decisive:
                return decisive
            unknown = unknown or value is None
        return None if unknown else not decisive

    depth = max(left.depth, _depth(operands[-1])) if is_longer else _depth(*operands)
    text = f"{_short(operands[0])} {operator} ..."
    return Expression(evaluate, text, depth, is_boolean=True, operator=operator, operands=operands)


def make_not(operand: Expression) -> Expression:
    """Raises FilterSyntaxError."""
    condition = as_condition(operand)
    value_of = condition.evaluate

    def evaluate(properties: Properties) -> Value:
        value = value_of(properties)
        return None if value is None else not value

    return _condition(evaluate, f"NOT {_short(condition)}", condition)


# --- comparisons -----------------------------------------------------------------------------------------------------


def make_negative(operand: Expression) -> Expression:
    """Unary minus; unknown for a value that is not a number. Raises FilterSyntaxError."""
    value_of = operand.evaluate

    def evaluate(properties: Properties) -> Value:
        value = value_of(properties)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return Expression(evaluate, f"-{_short(operand)}", _depth(operand))


def make_equal(left: Expression, right: Expression) -> Expression:
    """Raises FilterSyntaxError."""
    for side in (left, right):
        if side.is_constant and side.constant is None:
            raise FilterSyntaxError("NULL cannot be compared; IS NULL can")
    both_constant = left.is_constant and right.is_constant
    if both_constant and left.is_boolean and not right.is_boolean:
        raise FilterSyntaxError(f"{_short(left)} cannot be compared with {_short(right)}")
    return _equality(left, right)


def make_is_null(operand: Expression) -> Expression:
    """RocketMQ's "= NULL": true if the operand is unknown. Raises FilterSyntaxError."""
    return _equality(operand, make_constant(None, "NULL"))


def _equality(left: Expression, right: Expression) -> Expression:
    left_of, right_of = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> Value:
        left_value, right_value = left_of(properties), right_of(properties)
        if left_value is None:
            return True if right_value is None else None
        if right_value is None:
            return False
        return compare(left_value, right_value) == 0

    return _condition(evaluate, f"{_short(left)} = {_short(right)}", left, right)


# Maps an operator to a test of the sign of a comparison.
ORDERS: dict[str, Callable[[int], bool]] = {
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
}


def make_order(operator: str, left: Expression, right: Expression) -> Expression:
    """One of `ORDERS`, between values that are or may become numbers. Raises FilterSyntaxError."""
    for side in (left, right):
        is_number = side.is_constant and not side.is_boolean and not isinstance(side.constant, str)
        if side.is_boolean or (side.is_constant and not is_number):
            raise FilterSyntaxError(f"{_short(side)} cannot be compared by {operator}")
    left_of, right_of, holds = left.evaluate, right.evaluate, ORDERS[operator]

    def evaluate(properties: Properties) -> Value:
        left_value = left_of(properties)
        if left_value is None:
            return None
        right_value = right_of(properties)
        return None if right_value is None else holds(_compare_numbers(left_value, right_value))

    return _condition(evaluate, f"{_short(left)} {operator} {_short(right)}", left, right)


def _compare_numbers(left: Known, right: Known) -> int:
    """Like `compare`, but compares two texts as doubles. Raises EvaluationError."""
    if isinstance(left, str) and isinstance(right, str):
        return compare(parse_double(left), parse_double(right))
    return compare(left, right)


def make_between(value: Expression, low: Expression, high: Expression) -> Expression:
    """Raises FilterSyntaxError, also for constants whose low end is above the high end."""
    if low.is_constant and high.is_constant:
        if low.constant is None or high.constant is None:
            raise FilterSyntaxError("the ends of BETWEEN cannot be NULL")
        if _is_above(low.constant, high.constant):
            raise FilterSyntaxError(
                f"BETWEEN {_short(low)} AND {_short(high)} has its low end above its high end"
            )
    return make_and(make_order(">=", value, low), make_order("<=", value, high))


def _is_above(low: Known, high: Known) -> bool:
    try:
        return compare(high, low) < 0
    except EvaluationError as error:
        raise FilterSyntaxError(f"the ends of BETWEEN cannot be compared: {error}") from None


def make_not_between(value: Expression, low: Expression, high: Expression) -> Expression:
    """Raises FilterSyntaxError."""
    return make_or(make_order("<", value, low), make_order(">", value, high))


def make_in(operand: Expression, texts: Sequence[str], *, negated: bool) -> Expression:
    """Whether a property is one of these texts. Raises FilterSyntaxError."""
    if not operand.is_property:
        raise FilterSyntaxError(f"IN needs a property on its left, not {_short(operand)}")
    value_of, wanted = operand.evaluate, frozenset(texts)

    def evaluate(properties: Properties) -> Value:
        value = value_of(properties)
        return None if value is None else (value in wanted) is not negated

    return _condition(evaluate, f"{operand.text} IN (...)", operand)


# --- common ----------------------------------------------------------------------------------------------------------


def _condition(evaluate: Evaluate, text: str, *parts: Expression) -> Expression:
    return Expression(evaluate, text, _depth(*parts), is_boolean=True)


def _depth(*parts: Expression) -> int:
    """The depth of an expression made of these parts. Raises FilterSyntaxError beyond DEPTH_MAX."""
    depth = 1 + max(part.depth for part in parts)
    if depth > DEPTH_MAX:
        raise FilterSyntaxError(f"the expression has more than {DEPTH_MAX} levels")
    return depth


def _short(expression: Expression) -> str:
    text = expression.text
    return text if len(text) <= 60 else f"{text[:57]}..."
