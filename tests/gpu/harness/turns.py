"""Several children that do their work by turns, a unit each, so that whatever slows the machine down for a while meets
all of them alike. Runs that follow one another cannot be compared to the per cent on a machine with neighbours: equal
ones have been seen 20 % apart."""


class Stopped(Exception):
    """A child ended, or took too long, where its next turn was awaited."""


def _await(children, timeout_s):
    for child in children:
        if not child.await_turn(timeout_s):
            raise Stopped(child.name)


def take_turns(children, rounds, timeout_s):
    """Gives each child `rounds` turns, in an order that moves on by one child a round: nobody always follows the same.

    The children are gated ones that have been released and take turns; they do what comes before their first turn side
    by side. Afterwards each waits for one turn more, which is its end. A turn may take timeout_s; raises Stopped.
    """
    _await(children, timeout_s)
    for number in range(rounds):
        first = number % len(children)
        for child in children[first:] + children[:first]:
            child.give_turn()
            _await([child], timeout_s)
