// Functions of a float64 variable that GLSL has for 32 bits alone, to about 1e-13 of the result: arguments are reduced
// by constants in two parts, and series are summed. NaN goes in and comes out.
const double kLn2High = 0.693147180369123816490LF, kLn2Low = 1.90821492927058770002e-10LF;
const double kLn2 = 0.693147180559945309417LF;
const double kPi = 3.141592653589793238463LF, kHalfPi = 1.570796326794896619231LF;

double infinity() { return packDouble2x32(uvec2(0, 0x7ff00000u)); }
double not_a_number() { return packDouble2x32(uvec2(0, 0x7ff80000u)); }
double or_one(double x) { return x == 0.0LF ? 1.0LF : x; }
double with_sign(double magnitude, double x) { return x < 0.0LF ? -magnitude : magnitude; }
// 2^n of n from -1022 to 1023.
double power_of_2(int n) { return packDouble2x32(uvec2(0, uint(1023 + n) << 20)); }

// exp(r) - 1 of |r| < 0.35.
double small_expm1(double r) {
  double s = 0.0LF;
  [[unroll]] for (int n = 13; n >= 2; --n) s = (s + 1.0LF) * (r / double(n));
  return r * (s + 1.0LF);
}
// (1 + m) 2^k.
double scaled(double m, int k) {
  const int half_k = k / 2;
  return (1.0LF + m) * power_of_2(half_k) * power_of_2(k - half_k);
}
double exp_of(double x) {
  if (isnan(x)) return x;
  if (x > 709.8LF) return infinity();
  if (x < -745.2LF) return 0.0LF;
  const double k = floor(x / kLn2 + 0.5LF);
  precise double r = x - k * kLn2High;
  r = r - k * kLn2Low;
  return scaled(small_expm1(r), int(k));
}
double exp2_of(double x) {
  if (isnan(x)) return x;
  if (x >= 1024.0LF) return infinity();
  if (x < -1076.0LF) return 0.0LF;
  const double k = floor(x + 0.5LF);
  return scaled(small_expm1((x - k) * kLn2), int(k));
}
double expm1_of(double x) { return abs(x) < 0.34LF ? small_expm1(x) : exp_of(x) - 1.0LF; }

// Subnormal numbers are told and scaled by their bits: devices may take them for 0.
double log_of(double x) {
  uvec2 bits = unpackDouble2x32(x);
  if ((bits.x | (bits.y & 0x7fffffffu)) == 0u) return -infinity();
  if (isnan(x) || bits.y >> 31 != 0u) return not_a_number();
  if (isinf(x)) return x;
  int e = 0;
  if (bits.y >> 20 == 0u) {
    bits = unpackDouble2x32(double(bits.y) * 4294967296.0LF + double(bits.x));
    e = -1074;
  }
  e += int(bits.y >> 20) - 1023;
  bits.y = (bits.y & 0xfffffu) | 0x3ff00000u;
  double m = packDouble2x32(bits);
  if (m > 1.4142135623730951LF) {
    m *= 0.5LF;
    ++e;
  }
  precise const double z = (m - 1.0LF) / (m + 1.0LF);
  const double q = z * z;
  double s = 0.0LF;
  [[unroll]] for (int n = 23; n >= 3; n -= 2) s = (s + 1.0LF / double(n)) * q;
  return double(e) * kLn2High + (double(e) * kLn2Low + 2.0LF * z * (1.0LF + s));
}
double log1p_of(double x) {
  precise const double u = 1.0LF + x, added = u - 1.0LF;  // not the same as x
  if (added == 0.0LF || isinf(x)) return x < 0.0LF && isinf(x) ? not_a_number() : x;
  return u > 0.0LF ? log_of(u) * (x / added) : log_of(u);
}

double sigmoid_of(double x) {
  const double e = exp_of(-abs(x));
  return (x < 0.0LF ? e : 1.0LF) / (1.0LF + e);
}
double tanh_of(double x) {
  if (abs(x) > 22.0LF) return with_sign(1.0LF, x);
  const double e = expm1_of(2.0LF * abs(x));
  return isnan(x) ? x : with_sign(e / (e + 2.0LF), x);
}
double softplus_of(double x) { return (x < 0.0LF ? 0.0LF : x) + log1p_of(exp_of(-abs(x))); }
double sinh_of(double x) {
  const double a = abs(x), h = exp_of(0.5LF * a), e = expm1_of(a);
  return with_sign(a > 700.0LF ? 0.5LF * h * h : 0.5LF * (e + e / (e + 1.0LF)), x);
}
double cosh_of(double x) {
  const double a = abs(x), h = exp_of(0.5LF * a), e = exp_of(a);
  return a > 700.0LF ? 0.5LF * h * h : 0.5LF * (e + 1.0LF / e);
}
double asinh_of(double x) {
  const double a = abs(x), q = a * a;
  return with_sign(a > 1e150LF ? log_of(a) + kLn2 : log1p_of(a + q / (1.0LF + sqrt(q + 1.0LF))), x);
}
double acosh_of(double x) {
  const double t = x - 1.0LF;
  return x > 1e150LF ? log_of(x) + kLn2 : log1p_of(t + sqrt(2.0LF * t + t * t));
}
double atanh_of(double x) {
  const double a = abs(x);
  return with_sign(0.5LF * log1p_of(2.0LF * a / (1.0LF - a)), x);
}

// Halved angles until a short series does.
double atan_of(double x) {
  if (isnan(x)) return x;
  const double a = abs(x);
  double t = a > 1.0LF ? 1.0LF / a : a;
  [[unroll]] for (int i = 0; i < 2; ++i) t = t / (1.0LF + sqrt(1.0LF + t * t));
  const double q = -t * t;
  double s = 0.0LF;
  [[unroll]] for (int n = 25; n >= 3; n -= 2) s = (s + 1.0LF / double(n)) * q;
  const double angle = 4.0LF * t * (1.0LF + s);
  return with_sign(a > 1.0LF ? kHalfPi - angle : angle, x);
}
double asin_of(double x) {
  const double a = abs(x);
  if (!(a <= 1.0LF)) return not_a_number();
  if (a <= 0.5LF) return atan_of(x / sqrt((1.0LF - x) * (1.0LF + x)));
  const double s = sqrt(0.5LF * (1.0LF - a));
  return with_sign(kHalfPi - 2.0LF * atan_of(s / sqrt((1.0LF - s) * (1.0LF + s))), x);
}
double acos_of(double x) {
  const double a = abs(x);
  if (!(a <= 1.0LF)) return not_a_number();
  if (a <= 0.5LF) return kHalfPi - asin_of(x);
  const double s = sqrt(0.5LF * (1.0LF - a)), angle = 2.0LF * atan_of(s / sqrt((1.0LF - s) * (1.0LF + s)));
  return x < 0.0LF ? kPi - angle : angle;
}

const double kTwoBySqrtPi = 1.128379167095512573896LF;
// A series of positive terms.
double small_erf(double x) {
  const double q = 2.0LF * x * x;
  double term = x, sum = x;
  for (int n = 1; n < 80; ++n) {
    term *= q / double(2 * n + 1);
    sum += term;
  }
  return kTwoBySqrtPi * exp_of(-x * x) * sum;
}
// A continued fraction, for x >= 2.
double large_erfc(double x) {
  if (x > 28.0LF) return 0.0LF;
  double f = x;
  for (int n = 100; n >= 1; --n) f = x + 0.5LF * double(n) / f;
  return 0.5LF * kTwoBySqrtPi * exp_of(-x * x) / f;
}
double erf_of(double x) {
  if (isnan(x)) return x;
  const double a = abs(x);
  return a < 2.0LF ? small_erf(x) : with_sign(1.0LF - large_erfc(a), x);
}
double erfc_of(double x) {
  if (isnan(x)) return x;
  return x >= 2.0LF ? large_erfc(x) : 1.0LF - erf_of(x);
}
double logit_of(double x, double epsilon) {
  if (epsilon >= 0.0LF) x = x < epsilon ? epsilon : (x > 1.0LF - epsilon ? 1.0LF - epsilon : x);
  return log_of(x / (1.0LF - x));
}
double round_half_away(double x) {
  const double whole = trunc(x);
  return abs(x - whole) >= 0.5LF ? whole + with_sign(1.0LF, x) : whole;
}

bool is_odd(double y) { return floor(y * 0.5LF) * 2.0LF != y; }
double pow_of(double x, double y) {
  if (y == 0.0LF || x == 1.0LF) return 1.0LF;
  if (isnan(x) || isnan(y)) return not_a_number();
  const double a = abs(x);
  if (isinf(y)) return a == 1.0LF ? 1.0LF : ((a > 1.0LF) == (y > 0.0LF) ? infinity() : 0.0LF);
  const bool whole = floor(y) == y;
  if (x < 0.0LF && !whole && !isinf(x)) return not_a_number();
  const double magnitude = a == 0.0LF ? (y > 0.0LF ? 0.0LF : infinity()) : exp_of(y * log_of(a));
  return x < 0.0LF && whole && is_odd(y) ? -magnitude : magnitude;
}
double atan2_of(double y, double x) {
  if (isnan(x) || isnan(y)) return not_a_number();
  // Of zeros and infinities, only the signs count; that of a zero is its highest bit.
  const bool left = (unpackDouble2x32(x).y >> 31) != 0, below = (unpackDouble2x32(y).y >> 31) != 0;
  const double a = abs(x), b = abs(y);
  double angle = atan_of(b / a);
  if (b == 0.0LF)
    angle = 0.0LF;
  else if (isinf(a) && isinf(b))
    angle = 0.5LF * kHalfPi;
  else if (a == 0.0LF || isinf(b))
    angle = kHalfPi;
  if (left) angle = kPi - angle;
  return below ? -angle : angle;
}
