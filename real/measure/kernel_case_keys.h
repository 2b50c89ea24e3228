// The operations of a case and the keys that each takes.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "real/measure/kernel_case.h"

namespace plumbline::real {

// A key of the line: the member it sets, and for words the ones allowed (none: any).
struct CaseKey {
  std::string name;
  std::variant<std::string KernelCase::*, std::int64_t KernelCase::*> member;
  bool required = false;
  std::int64_t least = 1, most = std::int64_t{1} << 50;
  std::vector<std::string> words;
};

// The keys that `op` (in a partition: `kernel` beside the copy) takes; empty when there is no such operation.
std::vector<CaseKey> keys_of(const std::string& op, const std::string& kernel);

}  // namespace plumbline::real
