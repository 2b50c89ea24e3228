// One event of a trace as the text has it, and the class that stores the relevant ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate::detail {

enum class Category { unneeded, kernel, copy, gpu_annotation, annotation, call, operation, python };

Category category_of(std::string_view cat);

// Returns a whole number, also from inside a string ("stream 7").
std::optional<std::int64_t> whole_number(std::string_view token);

struct Arguments {
  std::optional<std::int64_t> device, stream;
  std::int64_t correlation = 0, bytes = 0, registers = 0, shared = 0;
  std::int64_t grid = 0, threads = 0;  // products over the dimensions
  std::int64_t sequence = -1;          // of autograd
  std::string_view dims;               // "Input Dims" as they stand in the file
  std::string_view operator_class;     // of a kernel of `plumbline run --trace`, "gemm"; else empty
};

// The texts are JSON tokens with their quotes, except the name.
struct Event {
  std::string_view name, pid, tid, ts, dur;
  Category category = Category::unneeded;
  bool complete = false;  // "ph": "X"
  Arguments arguments;
};

// Adds the relevant parts of each event to a trace.
class EventKeeper {
 public:
  explicit EventKeeper(Trace& trace) : trace_(trace) { trace_.names.number(""); }  // the empty name is number 0

  // Adds the event; returns what is wrong with it as the rest of a sentence, or "".
  std::string keep(const Event& event);

 private:
  void keep_call(const Event& event);
  void keep_range(const Event& event, std::int64_t start_ns, std::int64_t end_ns);
  void keep_work(const Event& event, std::int64_t start_ns, std::int64_t duration_ns);
  void bad_time(std::string_view key, std::string_view text);
  int small(std::int64_t value, std::string_view what);
  std::uint32_t thread_of(const Event& event);
  std::uint32_t name_of(const Event& event);

  Trace& trace_;
  std::string thread_, name_;  // "pid:tid" and "plumbline::gemm::q_b", kept to save allocations
  std::string problem_;
};

}  // namespace plumbline::calibrate::detail
