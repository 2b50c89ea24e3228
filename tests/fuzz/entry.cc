// The program `fuzz`: libFuzzer on the target that --target=NAME names.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {

const plumbline::fuzz::Target* chosen = nullptr;

// libFuzzer ignores arguments that begin with two dashes and hands them on to the processes that it starts.
const plumbline::fuzz::Target* target_of(int count, char** arguments) {
  constexpr std::string_view option = "--target=";
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (!argument.starts_with(option)) continue;
    for (const plumbline::fuzz::Target& target : plumbline::fuzz::targets())
      if (target.name == argument.substr(option.size())) return &target;
  }
  return nullptr;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t capacity);

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  chosen = target_of(*count, *arguments);
  if (chosen != nullptr) return 0;
  // For scripts: the targets, the longest input of each and where further inputs lie.
  for (const plumbline::fuzz::Target& target : plumbline::fuzz::targets()) {
    std::printf("%s %zu", target.name.c_str(), target.longest);
    for (const std::string& seed : target.seeds) std::printf(" %s", seed.c_str());
    std::printf("\n");
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t capacity,
                                               unsigned seed) {
  if (chosen->mutate == nullptr) return LLVMFuzzerMutate(data, size, capacity);
  const std::string text = chosen->mutate({reinterpret_cast<const char*>(data), size}, capacity, seed);
  const std::size_t length = std::min(text.size(), capacity);
  std::memcpy(data, text.data(), length);
  return length;
}
