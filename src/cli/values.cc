#include "cli/values.h"

#include "base/error.h"
#include "cli/common.h"
#include "tensor/npy.h"
#include "tensor/numeric.h"

namespace smelt::cli {

Result<Datum> read_value(const std::string& path) {
  namespace fs = std::filesystem;
  if (path == "none") return Datum{};
  std::error_code ec;
  if (!fs::is_directory(path, ec)) {
    SMELT_ASSIGN(Tensor t, read_npy(path));
    return Datum(std::move(t));
  }
  if (fs::exists(fs::path(path) / "keys.npy", ec)) {
    SMELT_ASSIGN(Tensor keys, read_npy((fs::path(path) / "keys.npy").string()));
    SMELT_ASSIGN(Tensor values, read_npy((fs::path(path) / "values.npy").string()));
    return Datum::map(std::move(keys), std::move(values));
  }
  std::vector<Datum> items;
  for (int i = 0;; ++i) {
    const fs::path file = fs::path(path) / Cat(i, ".npy");
    if (!fs::exists(file, ec)) break;
    SMELT_ASSIGN(Tensor t, read_npy(file.string()));
    items.emplace_back(std::move(t));
  }
  if (items.empty() && fs::path(path).extension() != ".seq")
    return InvalidInput(path, ": a folder without 0.npy, 1.npy, ... or keys.npy and values.npy");
  return Datum::sequence(std::move(items));
}

Datum adapt(Datum d, const Port& port) {
  if (!d.is_tensor() || d.tensor.dtype() == port.dtype || port.dtype == DType::kInvalid) return d;
  const DType have = d.tensor.dtype(), want = port.dtype;
  const bool same_bits =
      (have == DType::kU16 && want == DType::kBF16) || (bit_width(want) == 8 && is_float(want) && have == DType::kU8);
  if (same_bits) return Datum(Tensor::view(want, d.tensor.shape(), d.tensor.raw(), d.tensor.owner()));
  if (bit_width(want) > 0 && bit_width(want) < 8 && (have == DType::kI8 || have == DType::kU8)) {
    // 4-bit floats come as their codes.
    Tensor packed(is_float(want) ? DType::kU4 : want, d.tensor.shape());
    for (int64_t i = 0; i < packed.elements(); ++i) set_int(packed, i, get_int(d.tensor, i));
    return Datum(Tensor::view(want, packed.shape(), packed.raw(), packed.owner()));
  }
  return d;
}

namespace {
std::string input_names(const std::vector<Port>& ports) {
  std::string out;
  for (const Port& p : ports) out += Cat(out.empty() ? "" : ", ", p.name);
  return out.empty() ? "none" : out;
}
}  // namespace

Result<std::vector<Datum>> gather_inputs(const Model& model, const std::string& method,
                                         const std::vector<std::string>& arguments, uint64_t seed) {
  const auto ports = model.inputs(method);
  std::vector<Datum> out(ports.size());
  if (arguments.empty()) {
    for (size_t i = 0; i < ports.size(); ++i) {
      if (ports[i].optional) continue;
      SMELT_ASSIGN(out[i], random_value(ports[i], seed + i));
    }
    return out;
  }
  std::vector<bool> given(ports.size(), false);
  for (const std::string& text : arguments) {
    size_t index = ports.size();
    std::string path = text;
    const size_t eq = text.find('=');
    std::error_code ec;
    if (eq != std::string::npos && !std::filesystem::exists(text, ec)) {
      const std::string name = text.substr(0, eq);
      for (size_t i = 0; i < ports.size(); ++i)
        if (ports[i].name == name) index = i;
      if (index == ports.size())
        return InvalidInput("the model has no input '", name, "'; it has: ", input_names(ports));
      path = text.substr(eq + 1);
    } else {
      index = 0;
      while (index < ports.size() && given[index]) ++index;
      if (index >= ports.size()) return InvalidInput(arguments.size(), " inputs given, the model takes ", ports.size());
    }
    if (given[index]) return InvalidInput("input '", ports[index].name, "' is given twice");
    SMELT_ASSIGN(Datum d, read_value(path));
    out[index] = adapt(std::move(d), ports[index]);
    given[index] = true;
  }
  for (size_t i = 0; i < ports.size(); ++i)
    if (!given[i] && !ports[i].optional) return InvalidInput("input ", i, " '", ports[i].name, "' is missing");
  return out;
}

Status write_value(const std::filesystem::path& folder_path, size_t index, const Datum& d) {
  namespace fs = std::filesystem;
  std::error_code ec;
  switch (d.kind) {
    case Datum::Kind::kNone:
      return Ok();
    case Datum::Kind::kTensor:
      return write_npy((folder_path / Cat(index, ".npy")).string(), d.tensor);
    case Datum::Kind::kSequence: {
      const fs::path folder = folder_path / Cat(index, ".seq");
      fs::create_directories(folder, ec);
      if (ec) return Error(ErrorCode::kIo, Cat(folder.string(), ": ", ec.message()));
      for (size_t i = 0; i < d.items->size(); ++i)
        if ((*d.items)[i].is_tensor()) SMELT_TRY(write_npy((folder / Cat(i, ".npy")).string(), (*d.items)[i].tensor));
      // What an earlier, longer sequence left there.
      for (size_t i = d.items->size(); fs::remove(folder / Cat(i, ".npy"), ec); ++i) continue;
      return Ok();
    }
    case Datum::Kind::kMap: {
      const fs::path folder = folder_path / Cat(index, ".map");
      fs::create_directories(folder, ec);
      if (ec) return Error(ErrorCode::kIo, Cat(folder.string(), ": ", ec.message()));
      SMELT_TRY(write_npy((folder / "keys.npy").string(), (*d.items)[0].tensor));
      return write_npy((folder / "values.npy").string(), (*d.items)[1].tensor);
    }
  }
  return Ok();
}

}  // namespace smelt::cli
