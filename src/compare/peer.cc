#include "compare/peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/guard.h"

extern char** environ;

namespace smelt {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with the object.
class Workplace {
 public:
  static Result<std::unique_ptr<Workplace>> make() {
    const char* base = std::getenv("TMPDIR");
    std::string path = Cat(base && *base ? base : "/tmp", "/smelt-peer-XXXXXX");
    if (!mkdtemp(path.data())) return Error(ErrorCode::kIo, Cat(path, ": ", std::strerror(errno)));
    return std::unique_ptr<Workplace>(new Workplace(path));
  }
  ~Workplace() {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  std::string file(const char* name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  explicit Workplace(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string hex(const std::string& text) {
  static const char* const digits = "0123456789abcdef";
  std::string out;
  for (const unsigned char c : text) {
    out += digits[c >> 4];
    out += digits[c & 15];
  }
  return out.empty() ? "-" : out;
}
std::string unhex(const std::string& text) {
  std::string out;
  if (text == "-") return out;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    out += static_cast<char>(std::strtol(text.substr(i, 2).c_str(), nullptr, 16));
  return out;
}

DType dtype_named(const std::string& name) {
  for (int i = 1; i <= static_cast<int>(DType::kC128); ++i)
    if (name == to_string(static_cast<DType>(i))) return static_cast<DType>(i);
  return DType::kInvalid;
}

/// Writes inputs.txt, a line "NAME TYPE OFFSET RANK DIMENSION..." each (the name as hexadecimal bytes), and inputs.bin.
Status write_inputs(const Workplace& at, const Graph& g, std::span<const Datum> inputs) {
  std::ofstream index(at.file("inputs.txt")), data(at.file("inputs.bin"), std::ios::binary);
  uint64_t offset = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) return Unsupported("a peer takes tensors alone; input ", i, " is none");
    const Tensor& t = inputs[i].tensor;
    index << hex(g.value(g.inputs[i]).name) << ' ' << to_string(t.dtype()) << ' ' << offset << ' ' << t.rank();
    for (const int64_t d : t.shape()) index << ' ' << d;
    index << '\n';
    data.write(t.data<char>(), static_cast<std::streamsize>(t.bytes()));
    offset += t.bytes();
  }
  index.close();
  data.close();
  if (!index || !data) return Error(ErrorCode::kIo, Cat(at.path(), ": cannot write the inputs of a peer"));
  return Ok();
}

std::string last_line(const std::string& path) {
  std::ifstream in(path);
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty()) last = line;
  return last;
}

/// Runs a program to its end; its standard output and error go to `log`. The exit status.
Result<int> run_program(const std::vector<std::string>& arguments, const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return Unsupported(arguments[0], ": ", std::strerror(failed), "; SMELT_PYTHON names another interpreter");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Values of a graph by name; of equal names the one that comes first and was not asked for.
class Names {
 public:
  explicit Names(const Graph& g) {
    for (size_t i = 0; i < g.values.size(); ++i)
      if (!g.values[i].constant) ids_[g.values[i].name].push_back(static_cast<ValueId>(i));
  }
  ValueId take(const std::string& name) {
    const auto it = ids_.find(name);
    if (it == ids_.end() || it->second.empty()) return kNoValue;
    const ValueId id = it->second.front();
    it->second.erase(it->second.begin());
    return id;
  }

 private:
  std::map<std::string, std::vector<ValueId>> ids_;
};

class PeerSide final : public Side {
 public:
  PeerSide(std::string label, std::string file, std::string peer, std::shared_ptr<const Module> module, int graph)
      : Side(std::move(label), std::move(module), graph), file_(std::move(file)), peer_(std::move(peer)) {}

  Status run(std::span<const Datum> inputs, ValueTap& tap) override {
    return guarded([&]() -> Status {
      SMELT_ASSIGN(const auto at, Workplace::make());
      SMELT_TRY(write_inputs(*at, graph(), inputs));
      const char* python = std::getenv("SMELT_PYTHON");
      const std::string script = Cat(tracer_folder(), "/", peer_, ".py");
      if (!fs::exists(script)) return Error(ErrorCode::kIo, Cat(script, ": the tracer of ", peer_, " is missing"));
      SMELT_ASSIGN(const int status, run_program({python && *python ? python : "python3", script, file_, at->path()},
                                                 at->file("log.txt")));
      constexpr int kMissing = 3;  // of tracer.need()
      if (status != 0) {
        const std::string said = last_line(at->file("log.txt"));
        if (status == kMissing) return Unsupported(label_, ": ", said);
        return InvalidInput(label_, ": ", said.empty() ? Cat(peer_, " ended with status ", status) : said);
      }
      return show(*at, inputs, tap);
    });
  }

 private:
  /// Shows what values.txt lists, with lines like those of the inputs. A name "#N" is the graph's output N.
  Status show(const Workplace& at, std::span<const Datum> inputs, ValueTap& tap) {
    const Node none;
    const Graph& g = graph();
    Names names(g);
    for (size_t i = 0; i < inputs.size(); ++i) {
      Datum d = inputs[i];
      names.take(g.value(g.inputs[i]).name);
      SMELT_TRY(tap.made(none, g.inputs[i], d, true));
    }
    std::ifstream index(at.file("values.txt")), data(at.file("values.bin"), std::ios::binary);
    std::string line;
    while (std::getline(index, line)) {
      std::istringstream in(line);
      std::string coded, type;
      uint64_t offset = 0;
      int rank = -1;
      in >> coded >> type >> offset >> rank;
      const std::string name = unhex(coded);
      const DType dtype = dtype_named(type);
      if (!in || rank < 0 || rank > Shape::kMaxRank || dtype == DType::kInvalid || dtype == DType::kString) continue;
      Shape shape = Shape::of_rank(rank, 0);
      for (int i = 0; i < rank; ++i) in >> shape[i];
      SMELT_TRY(shape.checked_elements());
      SMELT_ASSIGN(Tensor t, Tensor::allocate(dtype, shape, false));
      data.seekg(static_cast<std::streamoff>(offset));
      data.read(t.data<char>(), static_cast<std::streamsize>(t.bytes()));
      if (!data) return Error(ErrorCode::kIo, Cat(label_, ": the tracer's file of values ends early"));
      ValueId id = kNoValue;
      if (name.starts_with('#')) {
        const auto at_output = static_cast<size_t>(std::strtoul(name.c_str() + 1, nullptr, 10));
        if (at_output < g.outputs.size()) id = g.outputs[at_output];
      } else {
        id = names.take(name);
      }
      if (id == kNoValue) continue;
      t.set_quant(g.value(id).type.quant);
      Datum d(std::move(t));
      SMELT_TRY(tap.made(none, id, d, false));
    }
    return Ok();
  }

  std::string file_, peer_;
};

}  // namespace

std::string tracer_folder() {
  std::error_code ec;
  const fs::path program = fs::read_symlink("/proc/self/exe", ec);
  return (program.parent_path().parent_path() / "share/smelt/tracers").string();
}

Result<std::unique_ptr<Side>> open_peer(std::string label, const std::string& file, const std::string& peer,
                                        std::shared_ptr<const Module> module, int graph) {
  static const std::map<std::string, std::vector<std::string>> formats = {
      {"onnxruntime", {"onnx", "ort"}}, {"litert", {"tflite"}}, {"executorch", {"executorch"}}};
  const auto& runs = formats.at(peer);
  if (std::ranges::find(runs, module->format) == runs.end())
    return InvalidInput(label, ": ", peer, " does not run files of the format ", module->format);
  return std::unique_ptr<Side>(std::make_unique<PeerSide>(std::move(label), file, peer, std::move(module), graph));
}

}  // namespace smelt
