// Many threads, many rounds, no growth.
#include <dirent.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "suite.h"

namespace abi {
namespace {

size_t resident_kb() {
  size_t size = 0, resident = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%zu %zu", &size, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return resident * 4;
}

size_t entries(const char* folder) {
  size_t n = 0;
  if (DIR* d = opendir(folder)) {
    while (readdir(d)) ++n;
    closedir(d);
  }
  return n;
}

void round_trip(Device& d, const std::string& model) {
  onnxGraph g = init(d, model);
  std::vector<float> x{-1, 2, -3, 4}, y(4);
  run(d, g, {describe("x", {4}, x)}, {describe("y", {4}, y)});
  EXPECT((y == std::vector<float>{0, 2, 0, 4}));
  EXPECT_OK(api.ReleaseGraph(g));
}

}  // namespace

void add_thread_checks(Checks& checks) {
  checks.push_back({"threads/ids_from_many", [] {
                      std::vector<std::thread> threads;
                      std::atomic<int> bad{0};
                      for (int i = 0; i < 8; ++i)
                        threads.emplace_back([&] {
                          for (int k = 0; k < 200; ++k) {
                            onnxBackendID ids[8];
                            size_t n = 8;
                            if (api.GetBackendIDs(ids, &n) != ONNXIFI_STATUS_SUCCESS) ++bad;
                            for (size_t j = 0; j < n; ++j)
                              if (api.ReleaseBackendID(ids[j]) != ONNXIFI_STATUS_SUCCESS) ++bad;
                          }
                        });
                      for (auto& t : threads) t.join();
                      EXPECT(bad == 0);
                    }});
  checks.push_back({"threads/create_and_release_storm", [] {
                      Device d;
                      const std::string model = serialize(relu_model());
                      std::vector<std::thread> threads;
                      std::atomic<int> bad{0};
                      for (int i = 0; i < 6; ++i)
                        threads.emplace_back([&] {
                          try {
                            for (int k = 0; k < 50; ++k) round_trip(d, model);
                          } catch (const std::exception&) {
                            ++bad;
                          }
                        });
                      for (auto& t : threads) t.join();
                      EXPECT(bad == 0);
                    }});
  checks.push_back({"threads/one_graph_from_many", [] {
                      Device d;
                      onnxGraph g = init(d, serialize(relu_model()));
                      std::vector<float> x{-1, 2, -3, 4}, y(4);
                      const std::vector<uint64_t> four{4};
                      const auto in = describe("x", 1, four, x.data()), out = describe("y", 1, four, y.data());
                      EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
                      std::vector<std::thread> threads;
                      std::atomic<int> bad{0};
                      for (int i = 0; i < 6; ++i)
                        threads.emplace_back([&] {
                          try {
                            for (int k = 0; k < 100; ++k) run(d, g);
                          } catch (const std::exception&) {
                            ++bad;
                          }
                        });
                      for (auto& t : threads) t.join();
                      EXPECT(bad == 0 && (y == std::vector<float>{0, 2, 0, 4}));
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  checks.push_back({"threads/rounds_without_growth", [] {
                      Device d;
                      const std::string model = serialize(relu_model());
                      for (int i = 0; i < 500; ++i) round_trip(d, model);
                      const size_t memory = resident_kb(), files = entries("/proc/self/fd"),
                                   threads = entries("/proc/self/task");
                      for (int i = 0; i < 9500; ++i) round_trip(d, model);
                      EXPECT(entries("/proc/self/fd") == files && entries("/proc/self/task") == threads);
                      EXPECT(resident_kb() < memory + 20000);
                    }});
}

}  // namespace abi
