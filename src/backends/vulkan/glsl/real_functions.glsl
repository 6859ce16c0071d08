// Functions of a real variable that GLSL lacks, or whose precision it leaves open, to about a millionth of the result.
// NaN goes in and comes out.
const float kPi = 3.14159265358979;
const float kLn2 = 0.693147180559945;

float copy_sign(float magnitude, float sign) {
  return uintBitsToFloat((floatBitsToUint(magnitude) & 0x7fffffffu) | (floatBitsToUint(sign) & 0x80000000u));
}
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_inf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
float infinity() { return uintBitsToFloat(0x7f800000u); }
float not_a_number() { return uintBitsToFloat(0x7fc00000u); }
float or_one(float x) { return x == 0.0 ? 1.0 : x; }

float expm1_of(float x) {
  if (abs(x) > 0.4) return exp(x) - 1.0;
  float s = 1.0 / 40320.0;
  s = s * x + 1.0 / 5040.0;
  s = s * x + 1.0 / 720.0;
  s = s * x + 1.0 / 120.0;
  s = s * x + 1.0 / 24.0;
  s = s * x + 1.0 / 6.0;
  s = s * x + 0.5;
  return x + x * x * s;
}

// 2 artanh(z) for small z.
float twice_artanh(float z) {
  const float q = z * z;
  return 2.0 * z * (1.0 + q * (1.0 / 3.0 + q * (0.2 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q / 11.0)))));
}
float log1p_of(float x) { return abs(x) < 0.3 ? twice_artanh(x / (2.0 + x)) : log(1.0 + x); }
// GLSL's log is imprecise around 1.
float log_of(float x) { return abs(x - 1.0) < 0.3 ? twice_artanh((x - 1.0) / (x + 1.0)) : log(x); }

float sigmoid_of(float x) { return 1.0 / (1.0 + exp(-x)); }
float softplus_of(float x) { return (x > 0.0 ? x : (x == x ? 0.0 : x)) + log1p_of(exp(-abs(x))); }
float tanh_of(float x) {
  if (abs(x) > 15.0) return copy_sign(1.0, x);
  const float t = expm1_of(-2.0 * abs(x));
  return x == 0.0 || is_nan(x) ? x : copy_sign(t / (t + 2.0), x);
}

// The bits of 2 / pi.
const uint kTwoByPi[8] = uint[8](0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u,
                                 0xfe5163abu, 0xdebbc561u);
uint two_by_pi(int first_bit) {  // 32 of them; zeros before the first
  const int word = first_bit >> 5, bit = first_bit & 31;
  const uint high = word < 0 ? 0u : kTwoByPi[min(word, 7)];
  if (bit == 0) return high;
  const uint low = word + 1 < 0 ? 0u : kTwoByPi[min(word + 1, 7)];
  return high << bit | low >> (32 - bit);
}

// x as quarter turns (0 to 3) and a rest between -pi / 4 and pi / 4. In fixed point: a float is a whole number of 24
// bits times a power of two, and of its product with 2 / pi only the bits from 2 downwards count.
float quarter_turns(float x, out int turn) {
  const uint bits = floatBitsToUint(x) & 0x7fffffffu;
  const int exponent = int(bits >> 23) - 150;
  const uint whole = bits & 0x7fffffu | 0x800000u;
  const int first = exponent - 2;
  uint high, low;
  umulExtended(whole, two_by_pi(first + 32), high, low);
  high += whole * two_by_pi(first);
  const int rest = int(high << 2 | low >> 30);
  turn = int(high >> 30) + (rest < 0 ? 1 : 0);
  const float r = float(rest) * 3.6572951982e-10;
  if ((floatBitsToUint(x) >> 31) == 0) return r;
  turn = -turn;
  return -r;
}
vec2 sin_cos(float x) {
  if (is_inf(x) || is_nan(x)) return vec2(not_a_number());
  int turn = 0;
  float r = x;
  if (abs(x) > 1024.0) {
    r = quarter_turns(x, turn);
  } else {  // pi / 2 is taken away in pieces that multiply exactly
    precise const float k = floor(x * 0.636619772367581 + 0.5);
    precise float rest = x - k * 1.5703125;
    rest = rest - k * 4.8351287841796875e-4;
    rest = rest - k * 3.1385570764541626e-7;
    rest = rest - k * 6.0771005065061922e-11;
    r = rest;
    turn = int(k);
  }
  const float q = r * r;
  const float s = r * (1.0 - q * (1.0 / 6.0 - q * (1.0 / 120.0 - q * (1.0 / 5040.0 - q / 362880.0))));
  const float c = 1.0 - q * (0.5 - q * (1.0 / 24.0 - q * (1.0 / 720.0 - q / 40320.0)));
  turn &= 3;
  if (turn == 0) return vec2(s, c);
  if (turn == 1) return vec2(c, -s);
  return turn == 2 ? vec2(-s, -c) : vec2(-c, s);
}
float sin_of(float x) { return x == 0.0 ? x : sin_cos(x).x; }
float cos_of(float x) { return sin_cos(x).y; }
float tan_of(float x) {
  const vec2 v = sin_cos(x);
  return x == 0.0 ? x : v.x / v.y;
}

float atan_of(float x) {
  if (is_nan(x)) return x;
  float z = abs(x), base = 0.0;
  if (z > 2.41421356) {
    base = kPi / 2.0;
    z = -1.0 / z;
  } else if (z > 0.41421356) {
    base = kPi / 4.0;
    z = (z - 1.0) / (z + 1.0);
  }
  const float q = z * z;
  float s = 1.0 / 17.0;
  s = 1.0 / 15.0 - q * s;
  s = 1.0 / 13.0 - q * s;
  s = 1.0 / 11.0 - q * s;
  s = 1.0 / 9.0 - q * s;
  s = 1.0 / 7.0 - q * s;
  s = 0.2 - q * s;
  s = 1.0 / 3.0 - q * s;
  return copy_sign(base + (z - z * q * s), x);
}
float asin_of(float x) {
  if (abs(x) > 1.0 || is_nan(x)) return not_a_number();
  return abs(x) == 1.0 ? copy_sign(kPi / 2.0, x) : atan_of(x / sqrt((1.0 - x) * (1.0 + x)));
}
float acos_of(float x) {
  if (abs(x) > 1.0 || is_nan(x)) return not_a_number();
  return x == -1.0 ? kPi : 2.0 * atan_of(sqrt((1.0 - x) / (1.0 + x)));
}
float atan2_of(float y, float x) {
  if (is_nan(x) || is_nan(y)) return not_a_number();
  const bool left = (floatBitsToUint(x) >> 31) != 0;
  float a;
  if (is_inf(x) && is_inf(y)) {
    a = left ? 0.75 * kPi : 0.25 * kPi;
  } else if (y == 0.0) {
    a = left ? kPi : 0.0;
  } else if (x == 0.0) {
    a = kPi / 2.0;
  } else {
    a = atan_of(abs(y) / abs(x));
    if (left) a = kPi - a;
  }
  return copy_sign(a, y);
}
float sinh_of(float x) {
  const float e = expm1_of(abs(x));
  if (is_inf(e)) return copy_sign(0.5 * exp(0.5 * abs(x)) * exp(0.5 * abs(x)), x);
  return copy_sign(0.5 * (e + e / (e + 1.0)), x);
}
float cosh_of(float x) {
  const float e = exp(0.5 * abs(x));
  return abs(x) > 80.0 ? 0.5 * e * e : 0.5 * (exp(x) + exp(-x));
}
float asinh_of(float x) {
  const float a = abs(x);
  if (is_nan(x) || is_inf(x)) return x;
  return copy_sign(a > 1e6 ? log(a) + kLn2 : log1p_of(a + a * a / (1.0 + sqrt(1.0 + a * a))), x);
}
float acosh_of(float x) {
  if (!(x >= 1.0)) return not_a_number();
  if (x > 1e6) return log(x) + kLn2;
  return log1p_of((x - 1.0) + sqrt((x - 1.0) * (x + 1.0)));
}
float atanh_of(float x) {
  if (!(abs(x) <= 1.0)) return not_a_number();
  return abs(x) == 1.0 ? copy_sign(infinity(), x) : 0.5 * log1p_of(2.0 * x / (1.0 - x));
}

// 1 - erf(x) for x >= 0.5: a rational approximation of the handbooks.
float erfc_tail(float x) {
  const float t = 1.0 / (1.0 + 0.3275911 * x);
  return t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) *
         exp(-x * x);
}
// The series of erf, for |x| < 1.
float erf_near(float x) {
  const float q = x * x;
  float s = 1.0 / 6894720.0;
  s = 1.0 / 685440.0 - q * s;
  s = 1.0 / 75600.0 - q * s;
  s = 1.0 / 9360.0 - q * s;
  s = 1.0 / 1320.0 - q * s;
  s = 1.0 / 216.0 - q * s;
  s = 1.0 / 42.0 - q * s;
  s = 0.1 - q * s;
  s = 1.0 / 3.0 - q * s;
  s = 1.0 - q * s;
  return 1.12837916709551 * x * s;
}
float erf_of(float x) {
  const float a = abs(x);
  if (is_nan(x)) return x;
  if (a < 1.0) return erf_near(x);
  return copy_sign(a > 5.0 ? 1.0 : 1.0 - erfc_tail(a), x);
}
float erfc_of(float x) {
  if (is_nan(x)) return x;
  if (abs(x) < 1.0) return 1.0 - erf_near(x);
  const float tail = abs(x) > 11.0 ? 0.0 : erfc_tail(abs(x));
  return x < 0.0 ? 2.0 - tail : tail;
}

// log(gamma(x)) for x >= 0.5 by Lanczos' series.
float lgamma_right(float x) {
  const float z = x - 1.0;
  float s = 1.000000000190015 + 76.18009172947146 / (z + 1.0) - 86.50532032941677 / (z + 2.0) +
            24.01409824083091 / (z + 3.0) - 1.231739572450155 / (z + 4.0) + 0.001208650973866179 / (z + 5.0);
  return 0.918938533204673 + log_of(s) + (z + 0.5) * log(z + 5.5) - (z + 5.5);
}
float sin_pi(float x) {
  const float whole = roundEven(x), s = sin_of(kPi * (x - whole));
  return whole * 0.5 == floor(whole * 0.5) ? s : -s;
}
float lgamma_of(float x) {
  if (is_nan(x)) return x;
  if (is_inf(x) || (x <= 0.0 && x == floor(x))) return infinity();
  if (x >= 0.5) return lgamma_right(x);
  return log(kPi / abs(sin_pi(x))) - lgamma_right(1.0 - x);
}
float gamma_of(float x) {
  if (is_nan(x)) return x;
  if (x == 0.0) return copy_sign(infinity(), x);
  if (x < 0.0 && x == floor(x)) return not_a_number();
  if (x > 40.0) return infinity();
  if (x >= 0.5 && x < 12.0) {  // down to [1, 2], where the logarithm is small
    float p = 1.0;
    float z = x;
    while (z > 2.0) {
      z -= 1.0;
      p *= z;
    }
    return p * exp(lgamma_right(z));
  }
  if (x >= 0.5) return exp(lgamma_right(x));
  return kPi / (sin_pi(x) * exp(lgamma_right(1.0 - x)));
}
float digamma_of(float x) {
  if (is_nan(x)) return x;
  if (x == 0.0) return copy_sign(infinity(), -x);
  float result = 0.0;
  if (x < 0.0) {
    if (x == floor(x)) return not_a_number();
    result = -kPi / tan_of(kPi * (x - trunc(x)));
    x = 1.0 - x;
  }
  while (x < 8.0) {
    result -= 1.0 / x;
    x += 1.0;
  }
  const float inv = 1.0 / (x * x);
  return result + log(x) - 0.5 / x - inv * (1.0 / 12.0 - inv * (1.0 / 120.0 - inv * (1.0 / 252.0 - inv / 240.0)));
}

float gelu_of(float x) { return 0.5 * x * (1.0 + erf_of(x * 0.707106781186548)); }
float round_even(float x) { return copy_sign(roundEven(x), x); }
float round_away(float x) { return abs(x) < 8388608.0 ? copy_sign(floor(abs(x) + 0.5), x) : x; }
// floor(|x| + 0.5) would be 1 for the largest number below 0.5.
float round_half_away(float x) { return abs(x) < 0.5 ? copy_sign(0.0, x) : round_away(x); }

// The remainder of truncated division, exactly: by long division bit by bit.
float fmod_of(float x, float y) {
  float a = abs(x);
  const float b = abs(y);
  if (is_nan(x) || is_nan(y) || is_inf(x) || b == 0.0) return not_a_number();
  if (a < b) return x;
  precise float d = b;
  int ea, eb;
  frexp(a, ea);
  frexp(b, eb);
  for (int e = ea - eb; e >= 0; --e) {
    d = ldexp(b, e);
    if (a >= d) a -= d;
  }
  return copy_sign(a, x);
}

float pow_of(float x, float y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (is_nan(x) || is_nan(y)) return not_a_number();
  const bool whole = floor(y) == y;
  const bool odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
  const float a = abs(x);
  float r;
  if (is_inf(y)) {
    r = a == 1.0 ? 1.0 : ((a > 1.0) == (y > 0.0) ? infinity() : 0.0);
  } else if (a == 0.0) {
    r = y > 0.0 ? 0.0 : infinity();
  } else if (is_inf(a)) {
    r = y > 0.0 ? infinity() : 0.0;
  } else if (whole && abs(y) <= 32.0) {  // by squaring
    float base = a;
    r = 1.0;
    for (int n = int(abs(y)); n > 0; n >>= 1) {
      if ((n & 1) != 0) r *= base;
      base *= base;
    }
    if (y < 0.0) r = 1.0 / r;
  } else if (y == 0.5) {
    r = sqrt(a);
  } else if (y == -0.5) {
    r = 1.0 / sqrt(a);
  } else {
    // log2(a) as an exponent and a small rest; the exponent's part is exact in the product's whole bits.
    int e;
    float f = frexp(a, e);
    if (f < 0.70710678) {
      f *= 2.0;
      --e;
    }
    const float rest = twice_artanh((f - 1.0) / (f + 1.0)) * 1.44269504088896;
    precise const float p = y * float(e);
    precise const float lo = fma(y, float(e), -p) + y * rest;
    const float hi = floor(p + lo + 0.5);
    const float t = (p - hi) + lo;
    r = hi > 140.0 ? infinity() : (hi < -160.0 ? 0.0 : ldexp(exp(t * kLn2), int(hi)));
  }
  if (x < 0.0 || (x == 0.0 && (floatBitsToUint(x) >> 31) != 0)) {
    if (odd) return -r;
    if (x < 0.0 && !whole && !is_inf(y) && !is_inf(x)) return not_a_number();
  }
  return r;
}
float hypot_of(float x, float y) {
  if (is_inf(x) || is_inf(y)) return infinity();
  const float m = max(abs(x), abs(y));
  if (m == 0.0 || is_nan(x) || is_nan(y)) return x * x + y * y;
  return m * sqrt((x / m) * (x / m) + (y / m) * (y / m));
}
float logit_of(float x, float eps) {
  const float z = eps < 0.0 ? x : (x < eps ? eps : (x > 1.0 - eps ? 1.0 - eps : x));
  return log_of(z / (1.0 - z));
}
float mod_of(float x, float y) {
  const float m = fmod_of(x, y);
  return m != 0.0 && (y < 0.0) != (m < 0.0) ? m + y : m;
}
float floor_div_of(float x, float y) {
  if (y == 0.0) return copy_sign(infinity(), x);
  const float m = fmod_of(x, y);
  const float d = (x - m) / y;
  return m != 0.0 && (floatBitsToUint(y) ^ floatBitsToUint(m)) >> 31 != 0 ? d - 1.0 : d;
}
