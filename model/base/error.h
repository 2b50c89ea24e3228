// Expected failures are values: `input` is wrong input at the boundary (exit 1), `infeasible` a well-formed request
// that cannot be met (exit 2), `interrupted` what a signal ended before it had an answer (exit 128 and the signal's
// number). Broken invariants are asserted instead.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace plumbline::model {

enum class ErrorKind { input, infeasible, interrupted };

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

// The error that a function returns in place of a Result<T>.
using Failure = tl::unexpected<Error>;

// Make errors of these kinds about a key, field or option, and about a line of a file (0: no single line). Arguments
// are in the order in which the text prints them; all but the message may be empty.
Failure wrong_input(std::string key, std::string message, std::string hint = "");
Failure wrong_input_at(std::string file, int line, std::string key, std::string message, std::string hint = "");
Failure infeasible(std::string key, std::string message, std::string hint = "");
Failure interrupted(std::string key, std::string message);  // by a signal

// Moves the value out of a Result; returns nothing for a Result<void>.
template <class Result>
auto value_in(Result&& result) {
  using Value = typename std::remove_cvref_t<Result>::value_type;
  if constexpr (!std::is_void_v<Value>) return Value(*std::forward<Result>(result));
}

// Evaluates to the value of a Result<T>. Without a value the enclosing function returns the error:
//   const Plan plan = TRY(load_plan(path));
// An enclosing lambda must state its return type. TRYs cannot be nested.
#define TRY(...)                                                                                          \
  __extension__({                                                                                         \
    auto&& tried_result = (__VA_ARGS__);                                                                  \
    if (!tried_result) return tl::unexpected(std::forward<decltype(tried_result)>(tried_result).error()); \
    ::plumbline::model::value_in(std::forward<decltype(tried_result)>(tried_result));                     \
  })

// Returns "plan.toml:12: parallelism.pipelin: unknown key (did you mean 'parallelism.pipeline'?)".
// Control characters are escaped, and words of more than 1,000 bytes cut.
std::string to_string(const Error& error);

// Returns why something cannot be, without file and remedy: "rollout.tensor: 3 do not divide 8 heads".
std::string reason_of(const Error& error);

// Returns the candidate with the smallest edit distance, or "" when none is close (within a third of the name).
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// Return hints about an unknown name. did_you_mean: "did you mean 'x'?" of nearest_name(), or of the candidate of which
// the name is the first or last word ("h100" of "h100-sxm"), or `otherwise` where none is near.
// did_you_mean_before: "did you mean 'x'? " (empty where none is near) before `rest`. known_names: that before the list
// of candidates, "did you mean 'x'? known: x, y".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates,
                         std::string_view otherwise = "");
std::string did_you_mean_before(std::string_view name, const std::vector<std::string>& candidates,
                                std::string_view rest);
std::string known_names(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace plumbline::model
