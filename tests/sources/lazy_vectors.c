// Arguments in all registers that functions can take them in. Compiled with -mavx.
#include <immintrin.h>
#include <stdint.h>

// Every argument counts.
double vectors(__m256d a, __m256d b, __m256d c, __m256d d, __m256d e, __m256d f, __m256d g, __m256d h, int64_t i, int64_t j, int64_t k,
               int64_t l, int64_t m, int64_t n, int64_t o) {
  __m256d all[] = {a, b, c, d, e, f, g, h};
  double sum = 0;
  for (int at = 0; at < 8; at++) {
    double parts[4];
    _mm256_storeu_pd(parts, all[at]);
    for (int part = 0; part < 4; part++) sum = sum * 1.25 + parts[part];
  }
  int64_t numbers[] = {i, j, k, l, m, n, o};
  for (int at = 0; at < 7; at++) sum = sum * 1.25 + (double)numbers[at];
  return sum;
}

typedef double vectors_function(__m256d, __m256d, __m256d, __m256d, __m256d, __m256d, __m256d, __m256d, int64_t, int64_t, int64_t,
                                int64_t, int64_t, int64_t, int64_t);

double call_vectors(vectors_function *function) {
  __m256d v[8];
  for (int at = 0; at < 8; at++) v[at] = _mm256_set_pd(at + 0.5, at * 3, -at, 1.0 / (at + 1));
  return function(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], 1, -2, 3, -4, 5, -6, 7);
}
