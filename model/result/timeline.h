// What ran when: spans on tracks, the same for predicted and measured steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::model {

// communication: exchanges of expert tokens; collective: what the ranks of a tensor or context group exchange; to_host
// and from_host: the two directions of the link to the host.
enum class Stream : std::uint8_t {
  compute,
  communication,
  weight_gradient,
  collective,
  to_host,
  from_host,
  pipeline,
  optimizer
};

inline bool on_host_link(Stream stream) { return stream == Stream::to_host || stream == Stream::from_host; }

struct Span {
  std::uint32_t name = 0;  // index into Timeline::names, e.g. "attn(F)"
  std::int32_t rank = 0;   // pipeline rank
  Stream stream = Stream::compute;
  std::int32_t layer = -1;  // model layer, -1 when none
  std::int32_t micro_batch = -1;
  std::int64_t start_ps = 0;  // picoseconds since the step began
  std::int64_t duration_ps = 0;
  std::uint8_t depth = 0;  // 0 slot (F, B, FB ...), 1 phase (attn(F) ...), 2 kernel
};

struct Timeline {
  std::vector<std::string> names;
  std::vector<Span> spans;  // ordered by (rank, stream, depth, start)
  std::int32_t ranks = 0;
  std::int64_t end_ps = 0;
};

}  // namespace plumbline::model
