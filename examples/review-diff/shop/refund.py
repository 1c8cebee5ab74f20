"""Refunds of card payments."""

from shop.fees import fee


def refund(amount, paid_fee, per_mille):
    """Returns the cents that the customer receives and the fee that is returned to the shop."""
    try:
        returned = fee(amount, per_mille)
    except ValueError:
        return 0, 0
    return amount, min(returned, paid_fee)
