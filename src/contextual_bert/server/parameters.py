"""The parameters of an address: a misspelt one is refused, as a misspelt key of a query is. It knows no route."""

from fastapi import Request

from contextual_bert.errors import did_you_mean
from contextual_bert.server.problems import invalid_parameter


async def check_parameters(request: Request) -> None:
    """A dependency that lets a request pass if its route takes every parameter of its address.

    Raises:
        ProblemError: one that would be ignored.
    """
    known = {each.alias for each in request.scope["route"].dependant.query_params}
    for name, value in request.query_params.items():
        if name not in known:
            raise invalid_parameter(name, value, "the parameter is unknown", allowed=did_you_mean(name, known))
