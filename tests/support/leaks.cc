// What LeakSanitizer does not report: memory that Mesa's software driver for Vulkan holds to the end of the process.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libvulkan_lvp.so\n"; }
// NOLINTEND(bugprone-reserved-identifier)
