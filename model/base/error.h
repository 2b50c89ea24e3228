// Expected failures are values. `input` is wrong input at the boundary (exit 1); `infeasible` is a
// well-formed request that cannot be met (exit 2). Broken invariants assert instead.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace plumbline::model {

enum class ErrorKind { input, infeasible };

struct Error {
  ErrorKind kind = ErrorKind::input;
  std::string message;  // what is wrong, one sentence, no full stop
  std::string file;     // empty when no file is involved
  int line = 0;         // 1-based; 0 when unknown
  std::string key;      // dotted key or field at fault; may be empty
  std::string hint;     // what to do about it; may be empty
};

template <class T>
using Result = tl::expected<T, Error>;

// "plan.toml:12: parallelism.pipelin: unknown key (did you mean 'parallelism.pipeline'?)"
std::string to_string(const Error& error);

// The candidate with the smallest edit distance, or "" when none is close (over a third of the name).
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace plumbline::model
