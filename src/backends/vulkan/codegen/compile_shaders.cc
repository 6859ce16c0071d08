// Compiles all variants of one compute shader in one process, since the compiler takes longer to start than to compile.
//
// usage: compile_shaders LIST SOURCE OUTPUT DEPFILE [INCLUDE_DIR]...
//
// LIST: shaders.txt of shaders.py, whose lines name|source|defines with SOURCE are compiled in their order.
// OUTPUT: the optimised SPIR-V of all variants as pack_shaders.h packs it (device/unpack_shaders.cc reads it).
// DEPFILE: the files that were included, as make reads them.

#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <shaderc/shaderc.hpp>
#include <spirv-tools/optimizer.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/vulkan/codegen/pack_shaders.h"

namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": can't be read");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Leaves a file alone that has these bytes: what depends on it is not built again.
void write_file(const std::string& path, const std::string& bytes) {
  if (std::ifstream(path) && read_file(path) == bytes) return;
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw std::runtime_error(path + ": can't be written");
}

/// Finds included files in a list of folders and notes them.
class Includer : public shaderc::CompileOptions::IncluderInterface {
 public:
  Includer(std::vector<std::string> folders, std::set<std::string>& seen) : folders_(std::move(folders)), seen_(seen) {}

  shaderc_include_result* GetInclude(const char* requested, shaderc_include_type, const char*, size_t) override {
    auto file = std::make_unique<File>();
    for (const std::string& folder : folders_) {
      file->path = folder + "/" + requested;
      if (!std::ifstream(file->path)) continue;
      file->text = read_file(file->path);
      seen_.insert(file->path);
      file->result = {file->path.data(), file->path.size(), file->text.data(), file->text.size(), file.get()};
      return &file.release()->result;
    }
    file->path.clear();
    file->text = "is in none of the folders";
    file->result = {file->path.data(), 0, file->text.data(), file->text.size(), file.get()};
    return &file.release()->result;
  }
  void ReleaseInclude(shaderc_include_result* result) override { delete static_cast<File*>(result->user_data); }

 private:
  struct File {
    std::string path, text;
    shaderc_include_result result{};
  };
  std::vector<std::string> folders_;
  std::set<std::string>& seen_;
};

/// What -O does but for its redundancy elimination and what follows from it: values that are made once live longer, and
/// drivers whose compilers don't undo that run out of registers in unrolled loops. Names are for debuggers only.
/// Ids are in the order of their first use, which packs better.
std::vector<std::string> passes() {
  const std::vector<std::string> values = {"--eliminate-local-single-block", "--eliminate-local-single-store",
                                           "--eliminate-dead-code-aggressive"};
  std::vector<std::string> arrays = {"--scalar-replacement=100", "--convert-local-access-chains"};
  arrays.insert(arrays.end(), values.begin(), values.end());
  arrays.insert(arrays.end(), {"--ssa-rewrite", "--eliminate-dead-code-aggressive"});
  std::vector<std::string> all = {"--strip-debug",
                                  "--wrap-opkill",
                                  "--eliminate-dead-branches",
                                  "--merge-return",
                                  "--inline-entry-points-exhaustive",
                                  "--eliminate-dead-functions",
                                  "--private-to-local"};
  const auto add = [&all](const std::vector<std::string>& more) { all.insert(all.end(), more.begin(), more.end()); };
  add(values);
  add(arrays);
  add({"--ccp", "--eliminate-dead-code-aggressive", "--loop-unroll", "--eliminate-dead-branches"});
  add(arrays);
  add({"--vector-dce", "--eliminate-dead-inserts", "--eliminate-dead-branches", "--simplify-instructions",
       "--eliminate-dead-code-aggressive", "--merge-blocks", "--compact-ids"});
  return all;
}

std::vector<uint32_t> optimised(const std::string& name, const std::vector<uint32_t>& module) {
  spvtools::Optimizer optimizer(SPV_ENV_VULKAN_1_1);
  optimizer.SetMessageConsumer([&name](spv_message_level_t, const char*, const spv_position_t&, const char* message) {
    std::cerr << name << ": " << message << '\n';
  });
  std::vector<uint32_t> out;
  if (!optimizer.RegisterPassesFromFlags(passes()) || !optimizer.Run(module.data(), module.size(), &out))
    throw std::runtime_error(name + ": can't be optimised");
  return out;
}

void compile(const std::vector<std::string>& args) {
  const std::string &list = args.at(0), &source = args.at(1), &output = args.at(2), &depfile = args.at(3);
  const std::string text = read_file(source);
  std::vector<std::string> folders = {source.substr(0, source.rfind('/'))};
  folders.insert(folders.end(), args.begin() + 4, args.end());
  std::set<std::string> included;
  const shaderc::Compiler compiler;
  smelt::vulkan::SpirvModules modules;
  std::istringstream lines(read_file(list));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find('|'), second = line.find('|', first + 1);
    if (line.substr(first + 1, second - first - 1) != source) continue;
    const std::string name = line.substr(0, first);
    shaderc::CompileOptions options;
    options.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_1);
    options.SetIncluder(std::make_unique<Includer>(folders, included));
    std::istringstream defines(line.substr(second + 1));
    for (std::string define; defines >> define;) {
      const size_t equals = define.find('=');
      options.AddMacroDefinition(define.substr(0, equals),
                                 equals == std::string::npos ? std::string() : define.substr(equals + 1));
    }
    const auto result = compiler.CompileGlslToSpv(text, shaderc_compute_shader, source.c_str(), options);
    if (result.GetCompilationStatus() != shaderc_compilation_status_success)
      throw std::runtime_error(name + ":\n" + result.GetErrorMessage());
    modules.push_back(optimised(name, {result.cbegin(), result.cend()}));
  }
  if (modules.empty()) throw std::runtime_error(list + " has no variant of " + source);
  std::string rule = output + ": " + source;
  for (const std::string& file : included) rule += " " + file;
  write_file(depfile, rule + "\n");
  write_file(output, smelt::vulkan::pack_shaders(modules));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    compile({argv + 1, argv + argc});
    return 0;
  } catch (const std::out_of_range&) {
    std::cerr << "usage: compile_shaders LIST SOURCE OUTPUT DEPFILE [INCLUDE_DIR]...\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
