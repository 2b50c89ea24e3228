// Where passes of a step end: behind the loss, or where a message to another pipeline stage starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "calibrate/import/kineto/detail/places/attention_stream.h"
#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

class PassEnds {
 public:
  // `class_names` has the class of each piece of work. The arguments must outlive the object.
  PassEnds(const Trace& trace, const std::vector<std::size_t>& work, const std::vector<std::string_view>& class_names,
           const AttentionStream& stream);

  // Returns the first of the stream's kernels [first, end) behind a loss; `first` where there is none.
  std::size_t behind_loss(std::size_t first, std::size_t end) const;
  // Returns the first of these kernels behind the start of the first message after kernel `first` - 1; `first` where
  // there is none.
  std::size_t behind_message(std::size_t first, std::size_t end) const;
  // Returns whether a pass ends in front of each backward that follows a forward. Then attention that alternates is of
  // passes of one layer, not of overlapped ones. False for a step with experts, whose tokens may be messages, too.
  bool between_directions() const;

 private:
  const Trace& trace_;
  const std::vector<std::size_t>& work_;
  const std::vector<std::string_view>& class_names_;
  const AttentionStream& stream_;
  std::vector<std::int64_t> messages_ns_;  // when messages start, ascending
};

}  // namespace plumbline::calibrate
