"""Compiles SQL92 filters to predicates over message properties (RocketMQ, SelectorParser, SqlFilter).

The grammar is RocketMQ's, with its surprises. It does not check that the text ends where the expression does, so it
ignores a rest that does not continue the expression: `a LIKE 'x'` is the property `a`, which never matches. NOT binds
more tightly than any comparison. A broker caches the expressions that it has compiled most recently.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import TYPE_CHECKING, Any

from staticfire.system_under_test.filters import sql92_expressions as make
from staticfire.system_under_test.filters.java_values import EvaluationError, Value
from staticfire.system_under_test.filters.sql92_expressions import (
    Expression,
    FilterSyntaxError,
    Properties,
)

if TYPE_CHECKING:
    from lark import Lark, Token

COMPILED_MAX = 100  # RocketMQ, SelectorParser: PARSE_CACHE
# RocketMQ has no limits. Here the broker serves no other client while it parses.
TEXT_LENGTH_MAX = 16 << 10  # characters
TOKENS_MAX = 2048
LINE_COMMENT_LENGTH_MAX = 256  # each `--` looks that far for the end of its line

GRAMMAR = rf"""
?start: or_expression
?or_expression: and_expression
    | or_expression OR and_expression -> or_
?and_expression: equality
    | and_expression AND equality -> and_
?equality: comparison
    | equality "=" comparison -> equal
    | equality UNEQUAL comparison -> not_equal
    | equality IS NULL -> is_null
    | equality IS NOT NULL -> is_not_null
?comparison: unary
    | comparison ORDER unary -> order
    | comparison BETWEEN unary AND unary -> between
    | comparison NOT BETWEEN unary AND unary -> not_between
    | comparison IN texts -> in_
    | comparison NOT IN texts -> not_in
texts: "(" STRING ("," STRING)* ")"
?unary: "+" unary
    | "-" unary -> negative
    | NOT unary -> not_
    | primary
?primary: STRING -> string
    | DECIMAL -> decimal
    | FLOAT -> float_
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | NAME -> property_
    | "(" or_expression ")"

UNEQUAL.2: "<>"
ORDER: ">=" | "<=" | ">" | "<"
OR: "OR"i
AND: "AND"i
NOT: "NOT"i
BETWEEN: "BETWEEN"i
IN: "IN"i
IS: "IS"i
TRUE: "TRUE"i
FALSE: "FALSE"i
NULL: "NULL"i
NAME: /[a-z_$][a-z0-9_$]*/i
STRING: /'(?:''|[^'])*'/
FLOAT.2: /[0-9]+\.[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
DECIMAL: /0|[1-9][0-9]*l?/i
LINE_COMMENT.3: /--[^\n\r]{{0,{LINE_COMMENT_LENGTH_MAX}}}[\n\r]/
BLOCK_COMMENT.3: /\/\*[^*]*\*(?:\*|[^*\/][^*]*\*)*\//
BLANK: /[ \t\n\r\f]+/
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
%ignore BLANK
"""


class SqlFilter:
    """A compiled expression."""

    __slots__ = ("_evaluate", "text")

    def __init__(self, text: str, condition: Expression) -> None:
        self.text = text
        self._evaluate = condition.evaluate

    def evaluate(self, properties: Properties) -> Value:
        """True, False, or None for unknown. Raises EvaluationError."""
        return self._evaluate(properties)

    def matches(self, properties: Properties) -> bool:
        """Whether a message with these properties is to be delivered: only if the expression is True, not unknown."""
        try:
            return self._evaluate(properties) is True
        except EvaluationError:
            return False


class CompiledFilters:
    """Compiles expressions and caches the latest results, failures included."""

    def __init__(self, kept_max: int = COMPILED_MAX) -> None:
        self._kept: OrderedDict[str, SqlFilter | FilterSyntaxError] = OrderedDict()
        self._kept_max = kept_max

    def __contains__(self, text: str) -> bool:
        """Whether the result for this expression is cached."""
        return text in self._kept

    def compile(self, text: str) -> SqlFilter:
        """Raises FilterSyntaxError."""
        found = self._kept.get(text)
        if found is None:
            found = self._kept[text] = self._try_to_compile(text)
            if len(self._kept) > self._kept_max:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(text)
        if isinstance(found, FilterSyntaxError):
            raise FilterSyntaxError(*found.args)
        return found

    @staticmethod
    def _try_to_compile(text: str) -> SqlFilter | FilterSyntaxError:
        try:
            return compile_filter(text)
        except FilterSyntaxError as error:
            return error


def compile_filter(text: str) -> SqlFilter:
    """Raises FilterSyntaxError: RocketMQ refuses this text, or it has more than 16 KiB or 2,048 tokens."""
    if len(text) > TEXT_LENGTH_MAX:
        raise FilterSyntaxError(
            f"the expression has {len(text)} characters; allowed: up to {TEXT_LENGTH_MAX}"
        )
    return SqlFilter(text, make.as_condition(_parse(text)))


def _parse(text: str) -> Expression:
    """The longest beginning of the text that is an expression. Raises FilterSyntaxError."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    parsing: Any = _parser().parse_interactive(text)  # lark annotates only half of this object
    token: Token | None = None
    try:
        for count, token in enumerate(parsing.lexer_thread.lex(parsing.parser_state)):
            if count == TOKENS_MAX:
                raise FilterSyntaxError(f"the expression has more than {TOKENS_MAX} tokens")
            try:
                parsing.feed_token(token)
            except UnexpectedToken:
                break  # JavaCC stops here, and checks whether the expression is complete
        expression = parsing.feed_eof(token)
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise FilterSyntaxError(
            f"{text[at : at + 20]!r} begins with no token, at character {at}"
        ) from None
    except UnexpectedToken:
        last = "" if token is None else f", its last word is {str(token)!r:.40}"
        raise FilterSyntaxError(f"the expression is not complete{last}") from None
    assert isinstance(expression, Expression)
    return expression


def load_parser() -> None:
    """Load what the first expression needs. It takes 60 ms, so a server calls it in a thread."""
    _parser()


@cache
def _parser() -> Lark:
    from lark import Lark, Transformer, v_args

    @v_args(inline=True)
    class Build(Transformer[Any, Expression]):
        """Builds expressions bottom up during parsing."""

        def or_(self, left: Expression, _or: Token, right: Expression) -> Expression:
            return make.make_or(left, right)

        def and_(self, left: Expression, _and: Token, right: Expression) -> Expression:
            return make.make_and(left, right)

        def equal(self, left: Expression, right: Expression) -> Expression:
            return make.make_equal(left, right)

        def not_equal(self, left: Expression, _sign: Token, right: Expression) -> Expression:
            return make.make_not(make.make_equal(left, right))

        def is_null(self, operand: Expression, *_words: Token) -> Expression:
            return make.make_is_null(operand)

        def is_not_null(self, operand: Expression, *_words: Token) -> Expression:
            return make.make_not(make.make_is_null(operand))

        def order(self, left: Expression, operator: Token, right: Expression) -> Expression:
            return make.make_order(str(operator), left, right)

        def between(self, value: Expression, *rest: Any) -> Expression:
            return make.make_between(value, rest[1], rest[3])

        def not_between(self, value: Expression, *rest: Any) -> Expression:
            return make.make_not_between(value, rest[2], rest[4])

        def in_(self, operand: Expression, _in: Token, texts: list[str]) -> Expression:
            return make.make_in(operand, texts, negated=False)

        def not_in(
            self, operand: Expression, _not: Token, _in: Token, texts: list[str]
        ) -> Expression:
            return make.make_in(operand, texts, negated=True)

        def texts(self, *strings: Token) -> list[str]:
            return [_unquoted(string) for string in strings]

        def negative(self, operand: Expression) -> Expression:
            return make.make_negative(operand)

        def not_(self, _not: Token, operand: Expression) -> Expression:
            return make.make_not(operand)

        def string(self, token: Token) -> Expression:
            return make.make_constant(_unquoted(token), str(token))

        def decimal(self, token: Token) -> Expression:
            return make.make_whole_number(str(token))

        def float_(self, token: Token) -> Expression:
            return make.make_float(str(token))

        def true(self, token: Token) -> Expression:
            return make.make_constant(True, "TRUE")

        def false(self, token: Token) -> Expression:
            return make.make_constant(False, "FALSE")

        def null(self, token: Token) -> Expression:
            return make.make_constant(None, "NULL")

        def property_(self, token: Token) -> Expression:
            return make.make_property(str(token))

    return Lark(GRAMMAR, parser="lalr", lexer="basic", transformer=Build())


def _unquoted(token: str) -> str:
    return token[1:-1].replace("''", "'")
