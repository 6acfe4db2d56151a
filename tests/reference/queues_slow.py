"""Closed networks of queues, slowly: by mean values, by the sum over all states, and by the balance of the Markov chain."""

import itertools
import math

import numpy as np


def mean_value_analysis(threads, delay, given):
    """Reiser and Lavenberg's recursion, for stations of one speed."""
    queues, rate = [0.0] * len(given), 0.0
    for count in range(1, threads + 1):
        stays = [demand * (1 + queue) for demand, queue in zip(given, queues, strict=True)]
        rate = count / (delay + sum(stays))
        queues = [rate * stay for stay in stays]
    return rate, queues


def every_state(threads, delay, stations):
    """Sum over all ways to place the threads: (calls per ns, threads at each station)."""

    def total(count):
        weight, present = 0.0, [0.0] * len(stations)
        for here in itertools.product(range(count + 1), repeat=len(stations)):
            if (alone := count - sum(here)) >= 0:
                one = delay**alone / math.factorial(alone)
                for n, station in zip(here, stations, strict=True):
                    one *= math.prod(
                        station.demand / (station.rates(k) if station.rates else 1) for k in range(1, n + 1)
                    )
                weight += one
                present = [p + n * one for p, n in zip(present, here, strict=True)]
        return weight, present

    weight, present = total(threads)
    return total(threads - 1)[0] / weight, [p / weight for p in present]


def balance(threads, delay, demands):
    """Solve the balance equations of exponential stations that a call visits in turn: (calls per ns, threads at each).

    A state is the number of threads that compute, then those at each station.  Nothing here assumes a product form.
    """
    places = len(demands) + 1
    states = [s for s in itertools.product(range(threads + 1), repeat=places) if sum(s) == threads]
    index = {state: i for i, state in enumerate(states)}
    flow = np.zeros((len(states), len(states)))
    for state, i in index.items():
        for place, time in enumerate([delay, *demands]):
            if state[place] and time > 0:
                rate = (state[place] if place == 0 else 1) / time
                after = list(state)
                after[place] -= 1
                after[(place + 1) % places] += 1
                flow[i, index[tuple(after)]] += rate
                flow[i, i] -= rate
    equations = np.vstack([flow.T, np.ones(len(states))])
    shares = np.linalg.lstsq(equations, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    present = [
        float(sum(share * state[k + 1] for share, state in zip(shares, states, strict=True))) for k in range(places - 1)
    ]
    busy = float(sum(share for share, state in zip(shares, states, strict=True) if state[1]))
    return busy / demands[0], present
