#include "cli/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/suggest.h"
#include "cli/common.h"
#include "cli/input_text.h"
#include "cli/npz.h"
#include "cli/output.h"
#include "cli/values.h"
#include "graph/graph.h"
#include "runtime/model_access.h"
#include "tensor/npy.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

constexpr int64_t kMaxRandom = int64_t{1} << 26;

std::optional<Fill> parse_fill(const std::string& text) {
  Fill out;
  if (text == "random") return out;
  out.kind = text == "zeros" ? Fill::Kind::kZeros : text == "ones" ? Fill::Kind::kOnes : Fill::Kind::kRange;
  if (out.kind != Fill::Kind::kRange) return out;
  const size_t comma = text.find(',');
  if (!text.starts_with("range:") || comma == std::string::npos) return std::nullopt;
  if (!parse_number(text.substr(6, comma - 6), out.low) || !parse_number(text.substr(comma + 1), out.high) ||
      !(out.low <= out.high) || std::isinf(out.low) || std::isinf(out.high))
    return std::nullopt;
  return out;
}

/// Values of an element type: reals in [-1, 1), small integers and bools at random, or what `fill` says.
void fill_tensor(Tensor& t, const Fill& fill, bool quantized, uint64_t seed) {
  const bool real = is_float(t.dtype()) || is_complex(t.dtype());
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(-1, 1), range(fill.low, fill.high);
  std::uniform_int_distribution<int64_t> whole(
      static_cast<int64_t>(std::ceil(fill.low)),
      std::max(static_cast<int64_t>(std::ceil(fill.low)), static_cast<int64_t>(std::floor(fill.high))));
  for (int64_t k = 0; k < t.elements() && t.dtype() != DType::kString; ++k) {
    switch (fill.kind) {
      case Fill::Kind::kRandom:
        if (real)
          set_double(t, k, unit(random));
        else
          set_int(t, k, static_cast<int64_t>(random() % (quantized ? 256 : 2)));
        break;
      case Fill::Kind::kZeros:
        return;
      case Fill::Kind::kOnes:
        real ? set_double(t, k, 1) : set_int(t, k, 1);
        break;
      case Fill::Kind::kRange:
        real ? set_double(t, k, range(random)) : set_int(t, k, whole(random));
        break;
    }
  }
}

Result<Datum> filled(const Port& p, const Shape& shape, const Fill& fill, uint64_t seed) {
  SMELT_ASSIGN(const int64_t elements, shape.checked_elements());
  if (elements > kMaxRandom)
    return LimitReached("input '", p.name, "' of shape ", shape.str(), " is too large for values that are made up");
  SMELT_ASSIGN(Tensor t, Tensor::allocate(p.dtype == DType::kInvalid ? DType::kF32 : p.dtype, shape));
  fill_tensor(t, fill, p.quant != nullptr, seed);
  return Datum(std::move(t));
}

/// The bytes of a file, or an array in one.
struct Bytes {
  std::string label;  ///< begins messages
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Collects the inputs of one method.
class Gatherer {
 public:
  Gatherer(const Model& model, const std::string& method, const InputOptions& options)
      : options_(options),
        ports_(model.inputs(method)),
        exact_(module_of(model).exact_inputs),
        rate_(sample_rate(model)),
        given_(ports_.size()) {
    out_.values.resize(ports_.size());
    out_.origins.resize(ports_.size());
  }

  Result<Inputs> run() {
    SMELT_ASSIGN(dimensions_, Dimensions::parse(options_.dimensions, ports_));
    for (const std::string& text : options_.files) SMELT_TRY(take(text));
    if (options_.files.empty() || !options_.fill.empty()) SMELT_TRY(fill_rest());
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (given_[i] || ports_[i].optional) continue;
      return InvalidInput("input ", i, " '", ports_[i].name,
                          "' is missing; --fill random gives values to what is left out");
    }
    return std::move(out_);
  }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const Port& p : ports_) out.push_back(p.name);
    return out;
  }

  Result<size_t> index_of(const std::string& name) const {
    for (size_t i = 0; i < ports_.size(); ++i)
      if (ports_[i].name == name) return i;
    return InvalidInput(not_among("input of the model", name, names()));
  }

  Result<size_t> next_free() const {
    for (size_t i = 0; i < ports_.size(); ++i)
      if (!given_[i]) return i;
    return InvalidInput("more than ", ports_.size(), " inputs given, the model takes ", ports_.size());
  }

  Status take(const std::string& text) {
    const size_t eq = text.find('=');
    std::error_code ec;
    const bool named = eq != std::string::npos && !std::filesystem::exists(text, ec);
    const std::string path = named ? text.substr(eq + 1) : text;
    std::optional<size_t> index;
    if (named) {
      SMELT_ASSIGN(index, index_of(text.substr(0, eq)));
    }
    if (path == "none" || std::filesystem::is_directory(path, ec)) {
      if (!index) {
        SMELT_ASSIGN(index, next_free());
      }
      SMELT_ASSIGN(Datum d, read_value(path));
      return set(*index, adapt(std::move(d), ports_[*index]), path);
    }
    if (named && path.starts_with('[')) return take_text(*index, path, "numbers");
    SMELT_ASSIGN(Bytes file, open(path));
    if (is_npz(file.bytes)) return take_archive(index, file);
    if (!index) {
      SMELT_ASSIGN(index, next_free());
    }
    if (is_wav(file.bytes)) return take_sound(*index, file);
    if (path.ends_with(".txt"))
      return take_text(*index, {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}, file.label);
    return take_array(*index, file, path.ends_with(".npy"));
  }

  static Result<Bytes> open(const std::string& path) {
    if (path == "-") {
      SMELT_ASSIGN(auto text, read_standard_input());
      return Bytes{"standard input", std::as_bytes(std::span(*text)), text};
    }
    SMELT_ASSIGN(auto file, MappedFile::open(path));
    const auto bytes = file->bytes();
    return Bytes{path, bytes, std::move(file)};
  }

  /// Arrays of an archive: all by their names, or in order where no name is an input's.
  Status take_archive(std::optional<size_t> index, const Bytes& file) {
    SMELT_ASSIGN(const auto entries, read_npz(file.bytes, file.label));
    const auto all = names();
    const auto is_listed = [&](const std::string& name) { return std::ranges::find(all, name) != all.end(); };
    const bool by_name = std::ranges::any_of(entries, [&](const NpzEntry& e) { return is_listed(e.name); });
    for (const NpzEntry& e : entries) {
      const Bytes array{Cat(file.label, ": ", e.name, ".npy"), e.bytes, e.owner};
      if (index) {
        if (entries.size() > 1 && e.name != ports_[*index].name) continue;
        return take_array(*index, array, true);
      }
      SMELT_ASSIGN(const size_t to, by_name ? index_of(e.name) : next_free());
      SMELT_TRY(take_array(to, array, true));
    }
    if (!index) return Ok();
    return InvalidInput(file.label, ": has ", entries.size(), " arrays, none of them '", ports_[*index].name, "'");
  }

  Status take_text(size_t i, std::string_view text, const std::string& label) {
    SMELT_ASSIGN(Tensor t, tensor_from_text(text, ports_[i], dimensions_.given_shape(ports_[i]), label));
    return set(i, Datum(std::move(t)), label);
  }

  Status take_sound(size_t i, const Bytes& file) {
    SMELT_ASSIGN(Sound sound, read_wav(file.bytes, file.label));
    if (rate_) {
      if (static_cast<double>(sound.samples.size()) * *rate_ / sound.rate > static_cast<double>(kMaxRandom))
        return LimitReached(file.label, ": ", sound.samples.size(), " samples at ", sound.rate, " Hz are too many");
      sound = resampled(sound, *rate_);
    }
    SMELT_ASSIGN(Tensor t, tensor_from_sound(sound, ports_[i], dimensions_.given_shape(ports_[i]), file.label));
    return set(i, Datum(std::move(t)), file.label);
  }

  Status take_array(size_t i, const Bytes& file, bool must_be_npy) {
    const Port& p = ports_[i];
    if (!must_be_npy && !is_npy(file.bytes)) {
      SMELT_ASSIGN(Tensor t, raw_array(p, file));
      return set(i, Datum(std::move(t)), file.label);
    }
    SMELT_ASSIGN(const NpyType type, npy_type(file.bytes, file.label));
    if (auto s = check_type(i, type); !s.ok()) return s.error().within(file.label);
    SMELT_ASSIGN(Tensor t, read_npy(file.bytes, file.label));
    return set(i, convert(i, std::move(t)), file.label);
  }

  /// Elements without a header.
  Result<Tensor> raw_array(const Port& p, const Bytes& file) const {
    const size_t bytes = file.bytes.size();
    if (bytes == 0) return InvalidInput(file.label, ": the file is empty");
    if (p.dtype == DType::kInvalid || p.dtype == DType::kString || !p.ranked)
      return InvalidInput(file.label, ": not an .npy file; the type of input '", p.name,
                          "' does not say how to read raw elements");
    Shape shape = dimensions_.given_shape(p);
    const auto open_dims = std::count_if(shape.begin(), shape.end(), [](int64_t d) { return d < 0; });
    if (open_dims == 1) {
      Shape one = shape;
      int64_t* open_dim = std::find_if(&one[0], &one[0] + one.rank(), [](int64_t d) { return d < 0; });
      *open_dim = 1;
      SMELT_ASSIGN(const int64_t elements, one.checked_elements());
      const size_t step = Tensor::byte_size(p.dtype, elements);
      *open_dim = step == 0 ? 0 : static_cast<int64_t>(bytes / step);
      shape = one;
    } else {
      shape = dimensions_.shape(p);
    }
    SMELT_ASSIGN(const int64_t elements, shape.checked_elements());
    if (Tensor::byte_size(p.dtype, elements) != bytes)
      return InvalidInput(file.label, ": not an .npy file, and as raw elements ", bytes, " bytes are no ",
                          to_string(p.dtype), shape.str(), ", which input '", p.name,
                          "' takes: ", Tensor::byte_size(p.dtype, elements), " bytes");
    SMELT_ASSIGN(Tensor t, Tensor::allocate(p.dtype, shape));
    std::memcpy(t.raw(), file.bytes.data(), bytes);
    return t;
  }

  bool quantizes(const Port& p, DType have) const {
    return options_.quantize && p.quant && is_float(have) && is_integer(p.dtype);
  }
  bool widens(const Port& p, DType have) const {
    return options_.widen && have == DType::kI32 && p.dtype == DType::kI64;
  }

  /// An error where the header tells that the model does not take the array.
  Status check_type(size_t i, const NpyType& type) const {
    const Port& p = ports_[i];
    if (!p.is_tensor) return Ok();
    if (p.dtype != DType::kInvalid && type.dtype != p.dtype && !adapts(type.dtype, p.dtype) &&
        !quantizes(p, type.dtype) && !widens(p, type.dtype)) {
      const bool floats = is_float(type.dtype);
      const std::string hint = floats && p.quant ? "; --quantize converts it"
                               : floats && is_float(p.dtype)
                                   ? Cat("; NumPy's astype('", to_string(p.dtype), "') converts it")
                                   : std::string();
      return InvalidInput("input ", i, " '", p.name, "' is ", to_string(type.dtype), ", the model takes ",
                          to_string(p.dtype), hint);
    }
    bool fits = !p.ranked || type.shape.rank() == p.shape.rank();
    for (int k = 0; fits && exact_ && p.ranked && k < p.shape.rank(); ++k)
      fits = p.shape[k] < 0 || p.shape[k] == type.shape[k];
    if (fits) return Ok();
    return InvalidInput("input ", i, " '", p.name, "' has shape ", type.shape.str(), ", the model takes ",
                        p.shape.str());
  }

  Datum convert(size_t i, Tensor t) const {
    const Port& p = ports_[i];
    if (quantizes(p, t.dtype())) {
      std::vector<float> reals(static_cast<size_t>(t.elements()));
      to_floats(t, reals.data());
      Tensor q(p.dtype, t.shape());
      q.set_quant(p.quant);
      quantize(reals.data(), q);
      return Datum(std::move(q));
    }
    if (widens(p, t.dtype())) {
      complain(Cat("input '", p.name, "': int32 widened to int64"));
      Tensor wide(DType::kI64, t.shape());
      for (int64_t k = 0; k < t.elements(); ++k) wide.data<int64_t>()[k] = t.data<int32_t>()[k];
      return Datum(std::move(wide));
    }
    return adapt(Datum(std::move(t)), p);
  }

  Status set(size_t i, Datum d, const std::string& source) {
    if (given_[i]) return InvalidInput("input '", ports_[i].name, "' is given twice");
    given_[i] = true;
    std::string sizes;
    if (d.is_tensor()) {
      dimensions_.learn(ports_[i], d.tensor.shape());
      sizes = dimension_sizes(ports_[i], d.tensor.shape(), "");
    }
    out_.origins[i] = {source, sizes};
    out_.values[i] = std::move(d);
    return Ok();
  }

  Status fill_rest() {
    const auto fill = parse_fill(options_.fill.empty() ? "random" : options_.fill);
    if (!fill) return InvalidInput("--fill ", options_.fill, ": random, zeros, ones or range:A,B expected");
    for (size_t i = 0; i < ports_.size(); ++i) {
      const Port& p = ports_[i];
      if (given_[i]) continue;
      given_[i] = true;
      if (p.optional) {
        out_.origins[i].source = "none";
        continue;
      }
      if (!p.is_tensor) return InvalidInput("input '", p.name, "' is not a tensor: give it with --input");
      std::string assumed;
      const Shape shape = dimensions_.shape(p, &assumed);
      SMELT_ASSIGN(out_.values[i], filled(p, shape, *fill, options_.seed + i));
      out_.origins[i] = {options_.fill.empty() ? "random" : options_.fill, dimension_sizes(p, shape, assumed)};
      if (!assumed.empty()) out_.assumed += Cat(out_.assumed.empty() ? "" : "; ", assumed, " of input '", p.name, "'");
    }
    return Ok();
  }

  const InputOptions& options_;
  std::vector<Port> ports_;
  bool exact_;
  std::optional<double> rate_;  ///< of sound, where the model states it
  std::vector<bool> given_;
  Dimensions dimensions_;
  Inputs out_;
};

}  // namespace

Error Inputs::explain(const Error& error) const {
  if (assumed.empty()) return error;
  return Error(error.code(), Cat(error.message(), " (assumed: ", assumed, "; --dim and --shape set them)"));
}

Json inputs_json(const std::vector<Port>& ports, const Inputs& inputs) {
  Json out = Json::array();
  for (size_t i = 0; i < inputs.values.size(); ++i) {
    Json entry = {{"name", ports[i].name}, {"source", inputs.origins[i].source}};
    if (inputs.values[i].is_tensor()) {
      const Tensor& t = inputs.values[i].tensor;
      entry["dtype"] = to_string(t.dtype());
      entry["shape"] = std::vector<int64_t>(t.shape().begin(), t.shape().end());
    }
    if (!inputs.origins[i].dimensions.empty()) entry["dimensions"] = inputs.origins[i].dimensions;
    out.push_back(std::move(entry));
  }
  return out;
}

Option add_inputs(Command command, InputOptions& options) {
  options.widen = true;
  Option input =
      command
          .add_option(
              "--input", options.files,
              "FILE in the model's order, or NAME=FILE: .npy, .npz, .wav, numbers in a .txt file or as 'NAME=[1, 2]', "
              "raw "
              "elements, - for standard input; a folder N.seq or N.map; 'none' for an absent optional; default: "
              "random values")
          .take_all()
          .type_name("FILE");
  command
      .add_option("--fill", options.fill,
                  "Values of the inputs left out: random, zeros, ones, or range:A,B for random values from A to B")
      .check(text_that([](const std::string& text) { return parse_fill(text).has_value(); },
                       "not random, zeros, ones or range:A,B"))
      .type_name("KIND");
  command.add_flag("--quantize", options.quantize, "Quantize float arrays for quantized inputs");
  add_dimensions(command, options.dimensions);
  return input;
}

Result<Inputs> gather_inputs(const Model& model, const std::string& method, const InputOptions& options) {
  return Gatherer(model, method, options).run();
}

}  // namespace smelt::cli
