#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smelt/model.h"

namespace smelt::cli {

/// Sound of one channel, samples in [-1, 1].
struct Sound {
  double rate = 0;  ///< samples a second
  std::vector<float> samples;
};

/// True if the bytes begin as a RIFF file of sound does.
bool is_wav(std::span<const std::byte> bytes);

/// Reads 8-, 16-, 24- or 32-bit integers or 32-bit floats; channels are averaged. `name` begins messages.
Result<Sound> read_wav(std::span<const std::byte> bytes, const std::string& name);

/// The sound at another rate, band-limited to the lower of the two.
Sound resampled(const Sound& sound, double rate);

/// Samples a second that the model's metadata state ("sample_rate", "sampling_rate"); nullopt: they state none.
std::optional<double> sample_rate(const Model& model);

}  // namespace smelt::cli
