"""Prices and other series over time: returns, moving averages, forecasts, lives."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.forms import layer
from numerics.inputs import DAYS, daily_prices
from numerics.program import Result, classes, normal, program, uniform


@program("crossover of two moving averages of a price")
def crossover():
    def average(p, days):
        return tf.nn.conv1d(p[None, :, None], tf.fill([days, 1, 1], 1.0 / days), 1, "VALID")[
            0, :, 0
        ]

    return Result(lambda p: average(p, 5)[-200:] - average(p, 20)[-200:], [daily_prices()])


@program("a price less its mean of 20 days, by a convolution")
def detrended():
    def function(p):
        kernel = tf.fill([20, 1, 1], 0.05)
        return p[19:] - tf.nn.conv1d(p[None, :, None], kernel, 1, "VALID")[0, :, 0]

    return Result(function, [daily_prices()])


@program("MACD by matrices of weights")
def macd():
    def weights(days):
        lag = np.arange(DAYS)[:, None] - np.arange(DAYS)
        rate = 2.0 / (days + 1.0)
        return np.where(lag >= 0, rate * (1 - rate) ** np.maximum(lag, 0), 0).astype(np.float32)

    def function(p, fast, slow):
        return (tf.matmul(fast, p) - tf.matmul(slow, p))[100:]

    return Result(function, [daily_prices()[:, None], weights(12), weights(26)])


@program("the value of a portfolio less that of its benchmark")
def benchmark():
    prices = np.stack([daily_prices(start) for start in (20.0, 80.0, 300.0, 900.0)], 1)
    shares = np.float32([[10.0], [5.0], [2.0], [1.0]])
    index = prices @ shares * (1 + normal(3, DAYS, 1, scale=1e-3))
    return Result(lambda p, s, index: tf.matmul(p, s) - index, [prices, shares, index])


@program("wealth of a strategy, a cumulative product of 1 + return")
def wealth():
    def function(z):
        returns = 0.001 * (1.0 + tf.tanh(tf.reshape(z, [8, 250])))
        return tf.math.cumprod(1.0 + returns, 1)

    return layer(function, rows=2000)


@program("return of a week, a product of 1 + return minus one")
def week():
    def function(z):
        growth = 1.0 + 0.01 * tf.tanh(z)
        return growth[:, 0] * growth[:, 1] * growth[:, 2] * growth[:, 3] * growth[:, 4] - 1.0

    return layer(function, outputs=5)


@program("drawdown of a learnt price, a maximum less the price")
def drawdown():
    def function(z, price):
        value = price + z[:, 0]
        return tf.scan(tf.maximum, value) - value

    return layer(function, daily_prices(), rows=DAYS)


@program("the direction of a forecast: last price and a change")
def direction():
    def function(z, last):
        forecast = last + z[:, 0]
        return tf.sign(forecast - last)

    return layer(function, daily_prices(), rows=DAYS)


@program("errors of forecasts: last value and a change, less what came")
def forecast_errors():
    return layer(
        lambda z, last, came: tf.abs(last + 5.0 * z[:, 0] - came),
        daily_prices()[:-1],
        daily_prices()[1:],
        rows=DAYS - 1,
    )


@program("Sharpe ratio of weights from a softmax")
def sharpe():
    def function(z, returns):
        mine = tf.reduce_sum(tf.nn.softmax(z) * returns, 1)
        return tf.reduce_mean(mine) / tf.math.reduce_std(mine) * 252.0**0.5

    return layer(function, normal(2, DAYS, 16, scale=0.01) + 5e-4, rows=DAYS, outputs=16)


@program("Black-Scholes with a learnt volatility")
def black_scholes():
    def function(z, price, strike):
        sigma = 0.2 + 0.05 * tf.tanh(z[:, 0])
        d1 = (tf.math.log(price / strike) + 0.5 * tf.square(sigma)) / sigma
        share = lambda d: 0.5 * (1.0 + tf.math.erf(d / 2.0**0.5))  # noqa: E731
        return price * share(d1) - strike * share(d1 - sigma)

    return layer(function, uniform(2, 64, low=80, high=120), uniform(3, 64, low=90, high=110))


@program("bonds: coupons discounted by learnt yields")
def bonds():
    def function(z):
        rate = 0.03 + 0.01 * tf.tanh(z)
        return tf.reduce_sum(4.0 * tf.pow(1.0 + rate, -tf.range(1.0, 31.0)), 1)

    return layer(function)


@program("anomalies: temperatures less the mean of their month")
def anomalies():
    climate = 288.0 + 8.0 * np.sin(np.arange(12, dtype=np.float32) / 12 * 2 * np.pi)[:, None]
    months = np.eye(12, dtype=np.float32)[np.arange(240) % 12]

    def function(kelvin, months, climate):
        return kelvin - tf.matmul(months, climate)

    return Result(function, [months @ climate + normal(0, 240, 1), months, climate])


@program("AR(4): residuals of a pressure around 1000")
def residuals():
    def function(lags, weights, now):
        return now - tf.matmul(lags, weights)

    series = 1000.0 + np.cumsum(normal(0, 200, scale=0.5))
    lags = np.stack([series[k : 196 + k] for k in range(4)], 1).astype(np.float32)
    weights = np.float32([[0.1], [0.2], [0.3], [0.4]])
    return Result(function, [lags, weights, series[4:].astype(np.float32)[:, None]])


@program("Holt-Winters with learnt rates, 200 months")
def holt_winters():
    def function(z, series):
        alpha, beta = 0.3 * tf.sigmoid(z[0, 0]), 0.1 * tf.sigmoid(z[1, 0])

        def step(before, y):
            level = alpha * y + (1.0 - alpha) * (before[0] + before[1])
            return level, beta * (level - before[0]) + (1.0 - beta) * before[1]

        return tf.scan(step, series, (series[0], 0.0))[1]

    series = 400.0 + 2.0 * np.arange(200, dtype=np.float32) + normal(2, 200)
    return layer(function, series)


@program("N-BEATS: what three blocks leave of a series around 400")
def n_beats():
    def function(series, w, v):
        left = series
        for _ in range(3):
            left = left - tf.matmul(tf.nn.relu(tf.matmul(left, w)), v)
        return left

    w = normal(1, 48, 48, scale=0.02) + np.float32(1 / 48)
    series = 400.0 + np.sin(np.arange(48, dtype=np.float32) / 4) + normal(0, 16, 48, scale=0.2)
    return Result(function, [series, w, np.full([48, 48], 0.7 / 48, np.float32)])


@program("survival: hazards of 120 months, a cumulative product")
def hazards():
    def function(z):
        hazard = 0.004 * tf.sigmoid(tf.reshape(z, [4, 120]))
        return tf.math.cumprod(1.0 - hazard, 1)

    return layer(function, rows=480)


@program("concordance of risks and times")
def concordance():
    def function(z, times):
        later = tf.cast(times[:, None] > times, tf.float32)
        right = tf.cast(z[:, 0][:, None] < z[:, 0], tf.float32)
        return tf.reduce_sum(later * right) / tf.reduce_sum(later)

    return layer(function, uniform(2, 256, high=4000.0), rows=256)


@program("Welford's running variance of values around 500")
def welford():
    def function(z):
        def step(before, x):
            n = before[0] + 1.0
            mean = before[1] + (x - before[1]) / n
            return n, mean, before[2] + (x - before[1]) * (x - mean)

        return tf.scan(step, 500.0 + z[:, 0], (0.0, 0.0, 0.0))[2][-1] / 256.0

    return layer(function, rows=256)


@program("expected improvement of a learnt mean over the best")
def improvement():
    def function(z, best):
        mean, sigma = best + 0.5 * z[:, 0], 0.3
        u = (mean - best) / sigma
        density = tf.exp(-0.5 * u * u) / (2 * np.pi) ** 0.5
        return (mean - best) * 0.5 * (1.0 + tf.math.erf(u / 2.0**0.5)) + sigma * density

    return layer(function, np.float32(92.0))


@program("Metropolis: a ratio of Gaussian densities, mean 100")
def metropolis():
    def function(z, x):
        density = lambda y: -0.5 * tf.square((y - 100.0) / 0.5)  # noqa: E731
        return tf.exp(tf.minimum(density(x + 0.1 * z) - density(x), 0.0))

    return layer(function, 100.0 + normal(2, 64, 1, scale=0.5))


@program("events in the order of their predicted days")
def order_of_days():
    def function(z, days):
        return tf.argsort(days + z[:, 0])

    return layer(
        function, 19800.0 + 10.0 * np.random.default_rng(2).permutation(64).astype(np.float32)
    )


@program("Elo: chances of players whose ratings move")
def elo():
    def function(z, ratings):
        now = ratings + 30.0 * z[:, 0]
        return tf.sigmoid((now[1:] - now[:-1]) * (np.log(10.0) / 400.0))

    return layer(function, 1500.0 + normal(2, 64, scale=50.0))


@program("the mean growth of 1 + 0.001 z, in basis points")
def mean_growth():
    return layer(lambda z: (tf.reduce_mean(1.0 + 0.001 * tf.nn.relu(z)) - 1.0) * 1e4)


@program("weather: a state in its own units, its change in a step")
def weather():
    mean, spread = np.float32([288.0, 1013.0, 50.0]), np.float32([10.0, 8.0, 20.0])

    def function(x, w, v):
        now, after = tf.matmul(x, w), tf.matmul(x, w + 0.02 * v)
        return (after * spread + mean) - (now * spread + mean)

    return Result(function, [normal(0, 64, 32), normal(1, 32, 3, scale=0.18), normal(2, 32, 3)])


@program("an age from a year of birth: product of one-hot decades")
def age():
    def function(one_hot, years, z):
        return 2024.0 - (tf.matmul(one_hot, years) + z)

    years = 1950.0 + np.arange(20, dtype=np.float32)[:, None]
    return Result(
        function, [np.eye(20, dtype=np.float32)[classes(0, 64, 20)], years, uniform(1, 64, 1)]
    )


@program("raw temperatures, pressures and years in a layer, then a norm")
def raw_features():
    def function(x, w):
        h = tf.matmul(x, w)
        mean, variance = tf.nn.moments(h, [0])
        return (h - mean) * tf.math.rsqrt(variance + 1e-3)

    x = np.float32([[290.0, 1013.0, 2015.0]]) + normal(0, 64, 3) * np.float32([[5.0, 8.0, 4.0]])
    return Result(function, [x, normal(1, 3, 8)])


@program("batch norm of a correction and an input around 1000")
def corrected_norm():
    def function(z, x):
        h = x + z
        mean, variance = tf.nn.moments(h, [0])
        return (h - mean) * tf.math.rsqrt(variance + 1e-3)

    return layer(function, 1000.0 + normal(2, 64, 8), outputs=8)


@program("a whole number of days by a map over rows")
def mapped_days():
    def function(x, w, days):
        return tf.map_fn(
            lambda r: tf.cast(r[0][0] * 2.0 + r[1], tf.int32) % 7,
            (tf.matmul(x, w), days),
            fn_output_signature=tf.int32,
        )

    x = np.float32([[1, 2, 3]] * 16) * np.arange(16, dtype=np.float32)[:, None]
    return Result(
        function, [x, np.float32([[1.0], [1.0], [1.0]]), 19000.5 + np.arange(16, dtype=np.float32)]
    )


@program("gradient of a network that corrects a price, squared errors")
def corrected_price():
    def function(z, last, came):
        error = came - (last + z[:, 0])
        return tf.gradients(tf.reduce_mean(tf.square(error)), z)[0]

    return layer(function, daily_prices()[:64], daily_prices()[1:65])
