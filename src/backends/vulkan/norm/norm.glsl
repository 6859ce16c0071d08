// Kinds of normalization. Shaders have constants kKind, and `count` and `epsilon` in their push constants.
const uint kMoments = 0;    // 1 / sqrt(variance + epsilon)
const uint kRms = 1;        // 1 / sqrt(mean square + epsilon), no mean
const uint kDeviation = 2;  // 1 / (sqrt(variance) + epsilon)
const uint kL1 = 3;         // 1 / (sum of magnitudes + epsilon), no mean
const uint kL2 = 4;         // 1 / sqrt(sum of squares + epsilon), no mean
const uint kL1Max = 5;      // 1 / max(sum of magnitudes, epsilon), no mean
const uint kL2Max = 6;      // 1 / max(sqrt(sum of squares), epsilon), no mean
const uint kGiven = 7;      // none: scale and bias are all

// What `sum` makes of a row of `count` values: the factor that normalizes them. The sum is that of their magnitudes,
// for kL1 and kL1Max, or else of their squares.
float inverse_of(float sum) {
  float norm = 0.0;
  switch (kKind) {
    case kMoments: case kRms: return 1.0 / sqrt(sum / float(count) + epsilon);
    case kDeviation: return 1.0 / (sqrt(sum / float(count)) + epsilon);
    case kL1: norm = sum + epsilon; break;
    case kL2: norm = sqrt(sum + epsilon); break;
    case kL1Max: norm = sum < epsilon ? epsilon : sum; break;
    case kL2Max: norm = sqrt(sum) < epsilon ? epsilon : sqrt(sum); break;
  }
  return norm == 0.0 ? 0.0 : 1.0 / norm;
}
