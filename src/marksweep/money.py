"""Money: what the tokens of a model cost. One small table, dated because prices change."""

from __future__ import annotations

import math

import msgspec

from marksweep.errors import BadInput, unknown_name


class ModelPrice(msgspec.Struct, frozen=True):
    """Dollars for a million tokens."""

    model: str
    input: float
    cached: float
    """Input that the prompt cache holds."""
    output: float
    write: float
    """Input that is written to the cache while it is read."""

    def of_input(self, fresh: int, cached: int) -> float:
        """Return the dollars for input tokens, uncached and cached."""
        return (fresh * self.write + cached * self.cached) / 1_000_000

    def of_reread(self, tokens: int) -> float:
        """Return the cost, above the cached price, of reading again what a cache held."""
        return tokens * (self.write - self.cached) / 1_000_000

    def __str__(self) -> str:
        """Show the prices per million tokens, and their date."""
        prices = f"${self.input:g} in, ${self.cached:g} cached, ${self.output:g} out per million"
        return f"{self.model} ({prices}{f', {AS_OF}' if self.model in MODELS else ''})"


AS_OF = "October 2026"
"""When the table was taken from the providers' price lists."""

MODELS = {
    price.model: price
    for price in (
        ModelPrice("claude-sonnet-5.5", 2.0, 0.1, 10.0, 2.5),
        ModelPrice("claude-opus-5.5", 4.0, 0.2, 20.0, 5.0),
        ModelPrice("claude-haiku-5.5", 0.1, 0.01, 0.5, 0.125),
        ModelPrice("claude-sonnet-4.5", 3.0, 0.3, 15.0, 3.75),
        ModelPrice("gpt-6-sol", 2.0, 0.2, 10.0, 2.0),
        ModelPrice("gpt-5-mini", 0.25, 0.025, 2.0, 0.25),
    )
}
"""List prices up to 100,000 tokens of input; the first is the default."""

MODEL = next(iter(MODELS))


def price_of(model: str = MODEL, given: str | None = None) -> ModelPrice:
    """Find the prices of a model; `given` overrides them: `IN,CACHED,OUT`, dollars per million."""
    if given is not None:
        return _read(model, given)
    if model not in MODELS:
        advice = "Name the prices, in dollars for a million tokens: --price IN,CACHED,OUT."
        raise unknown_name("no prices for", model, MODELS, advice)
    return MODELS[model]


def _read(model: str, given: str) -> ModelPrice:
    try:
        figures = [float(figure) for figure in given.split(",")]
    except ValueError:
        figures = []
    if len(figures) != 3 or not all(math.isfinite(f) and f >= 0 for f in figures):
        raise BadInput(
            f"the price is {given!r}; expected three numbers, 0 or more, in dollars for a million "
            "tokens of input, cached input and output, such as 3,0.3,15."
        )
    name = "the given price" if model in MODELS else model
    return ModelPrice(name, figures[0], figures[1], figures[2], figures[0])


def dollars(amount: float) -> str:
    """Format an amount to the cent, or with two significant digits below ten cents."""
    if not amount or abs(amount) >= 0.1:
        return f"${amount:,.2f}"
    return f"${amount:.{1 - math.floor(math.log10(abs(amount)))}f}"
