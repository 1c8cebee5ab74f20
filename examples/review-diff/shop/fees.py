"""Fees of card payments, in whole cents."""


def fee(amount, per_mille):
    """Returns the fee of an amount in cents; half a cent is rounded up."""
    return round(amount * per_mille / 1000)


def payout(amount, per_mille):
    """Returns what the shop receives."""
    return amount - fee(amount, per_mille)
