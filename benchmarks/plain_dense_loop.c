/* FlexDOME's episode as a plain dense loop in C: the speed reference of the learning benchmark.
 *
 * One constraint, S x A x H tables, exact metrics by one forward pass, truncated policy evaluation over every (s, a),
 * mirror step in log space, dual step, one roll-out. Written for the compiler, not for a machine:
 *     gcc -O3 -march=native -ffast-math plain_dense_loop.c -lm
 *     ./a.out S A H T
 * prints microseconds per episode, strong regret and strong violation (of an instance of its own).
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state[2] = {88172645463325252u, 1181783497276652981u};

static inline double uniform(void) { /* xorshift128+ */
    uint64_t x = state[0], y = state[1];
    state[0] = y;
    x ^= x << 23;
    state[1] = x ^ y ^ (x >> 17) ^ (y >> 26);
    return (double)((state[1] + y) >> 11) * 0x1p-53;
}

static double *doubles(size_t n) {
    double *p = aligned_alloc(64, (n * sizeof(double) + 63) / 64 * 64);
    memset(p, 0, n * sizeof(double));
    return p;
}

int main(int argc, char **argv) {
    const int S = argc > 1 ? atoi(argv[1]) : 20, A = argc > 2 ? atoi(argv[2]) : 5, H = argc > 3 ? atoi(argv[3]) : 5;
    const long T = argc > 4 ? atol(argv[4]) : 80000;
    const size_t n = (size_t)H * S * A;
    double *P = doubles(n * S), *cumulative = doubles(n * S), *p_hat = doubles(n * S);
    float *counts = calloc(n * S, sizeof(float));
    double *r = doubles(n), *d = doubles(n), *N = doubles(n), *r_hat = doubles(n), *d_hat = doubles(n);
    double *width = doubles(n), *logits = doubles(n), *pi = doubles(n), *Q = doubles(n);
    for (size_t i = 0; i < n; i++) {
        double total = 0;
        for (int k = 0; k < S; k++) total += P[i * S + k] = pow(uniform(), 10.0) * -log(uniform() + 1e-300);
        double sum = 0;
        for (int k = 0; k < S; k++) cumulative[i * S + k] = sum += P[i * S + k] /= total;
        r[i] = uniform() < 0.5;
        d[i] = 1 - r[i];
        logits[i] = -log(A);
        pi[i] = 1.0 / A;
        width[i] = 1;
    }
    const double alpha = 0.5 * H, sigma = 0.25 * H, delta = 0.1, bound = 8, log_A = log(A), c_b = 1e-3;
    const double phi_r = c_b * sqrt(0.5 * log(4.0 * n * T / (delta / 4)));
    const double phi_p = c_b * H * sqrt(2.0 * S + 2 * log((double)n * T / (delta / 4)));
    double *V_r = doubles(S), *V_d = doubles(S), *V_psi = doubles(S), *W_r = doubles(S), *W_d = doubles(S);
    double *W_psi = doubles(S), *x = doubles(S), *x_next = doubles(S), *swap;
    double lam = 0, alpha_sum = 0, alpha_n = 0, regret = 0, violation = 0;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long t = 1; t <= T; t++) {
        const double eta = pow(t, -5.0 / 6), tau = pow(t, -1.0 / 6), eps = 0.76 * tau * pow(log(4 * n * t / delta), 0.25);
        /* exact values of pi_t */
        double value = 0, utility = 0;
        memset(x, 0, S * sizeof(double));
        x[0] = 1;
        for (int h = 0; h < H; h++) {
            memset(x_next, 0, S * sizeof(double));
            for (int s = 0; s < S; s++) {
                if (x[s] == 0) continue;
                for (int a = 0; a < A; a++) {
                    const size_t i = ((size_t)h * S + s) * A + a;
                    const double mass = x[s] * pi[i];
                    value += mass * r[i];
                    utility += mass * d[i];
                    for (int k = 0; k < S; k++) x_next[k] += mass * P[i * S + k];
                }
            }
            swap = x, x = x_next, x_next = swap;
        }
        regret += fmax(H - alpha - value, 0);
        violation += fmax(alpha - utility, 0);
        /* truncated policy evaluation */
        memset(V_r, 0, S * sizeof(double)), memset(V_d, 0, S * sizeof(double)), memset(V_psi, 0, S * sizeof(double));
        for (int h = H - 1; h >= 0; h--) {
            const double cap = H - h;
            for (int s = 0; s < S; s++) {
                double v_r = 0, v_d = 0, v_psi = 0;
                for (int a = 0; a < A; a++) {
                    const size_t i = ((size_t)h * S + s) * A + a;
                    double e_r = 0, e_d = 0, e_psi = 0;
                    for (int k = 0; k < S; k++) {
                        e_r += p_hat[i * S + k] * V_r[k];
                        e_d += p_hat[i * S + k] * V_d[k];
                        e_psi += p_hat[i * S + k] * V_psi[k];
                    }
                    const double phi = (phi_r + phi_p) * width[i], psi = -logits[i];
                    const double q_r = fmin(r_hat[i] + phi + e_r, cap), q_d = fmin(d_hat[i] + phi + e_d, cap);
                    const double q_psi = fmin(psi + phi_p * log_A * width[i] + e_psi, psi + cap * log_A);
                    v_r += pi[i] * q_r, v_d += pi[i] * q_d, v_psi += pi[i] * q_psi;
                    Q[i] = q_r + lam * q_d + tau * q_psi;
                }
                W_r[s] = v_r, W_d[s] = v_d, W_psi[s] = v_psi;
            }
            swap = V_r, V_r = W_r, W_r = swap;
            swap = V_d, V_d = W_d, W_d = swap;
            swap = V_psi, V_psi = W_psi, W_psi = swap;
        }
        const double estimate = V_d[0], alpha_bar = alpha_n > 0 ? alpha_sum / alpha_n : 0;
        /* roll out pi_t and count */
        const double sample = alpha + sigma * sqrt(-2 * log(uniform() + 1e-300)) * cos(2 * M_PI * uniform());
        for (int h = 0, s = 0; h < H; h++) {
            const size_t at = ((size_t)h * S + s) * A;
            double u = uniform(), sum = pi[at];
            int a = 0, k = 0;
            while (u > sum && a < A - 1) sum += pi[at + ++a];
            const size_t i = at + a;
            u = uniform();
            while (u > cumulative[i * S + k] && k < S - 1) k++;
            N[i] += 1;
            const double inverse = 1 / N[i];
            r_hat[i] += (r[i] - r_hat[i]) * inverse, d_hat[i] += (d[i] - d_hat[i]) * inverse;
            counts[i * S + k] += 1;
            for (int j = 0; j < S; j++) p_hat[i * S + j] = counts[i * S + j] * inverse;
            width[i] = sqrt(inverse);
            alpha_sum += sample, alpha_n += 1;
            s = k;
        }
        /* mirror step */
        for (size_t i = 0; i < n; i++) logits[i] += eta * Q[i];
        for (size_t j = 0; j < n; j += A) {
            double top = logits[j];
            for (int a = 1; a < A; a++) top = fmax(top, logits[j + a]);
            for (int a = 0; a < A; a++) logits[j + a] -= top;
        }
        for (size_t i = 0; i < n; i++) pi[i] = exp(logits[i]);
        for (size_t j = 0; j < n; j += A) {
            double total = 0;
            for (int a = 0; a < A; a++) total += pi[j + a];
            const double inverse = 1 / total, log_total = log(total);
            for (int a = 0; a < A; a++) pi[j + a] *= inverse, logits[j + a] -= log_total;
        }
        /* dual step */
        lam = fmin(fmax((1 - eta * tau) * lam - eta * (estimate - eps - alpha_bar), 0), bound);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds = (end.tv_sec - begin.tv_sec) + 1e-9 * (end.tv_nsec - begin.tv_nsec);
    printf("%.6f %.3f %.3f %.4f\n", seconds / T * 1e6, regret, violation, lam);
    return 0;
}
