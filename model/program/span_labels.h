// What the spans of a step state about its program: stage, chunk, direction, layer, micro-batch and work. The same for
// a simulated and an executed step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "model/program/program.h"
#include "model/result/timeline.h"

namespace plumbline::model {

// The names of the collectives of data parallelism in a timeline.
inline constexpr std::string_view reduce_gradients = "reduce gradients", gather_parameters = "gather parameters";

class SpanLabels {
 public:
  explicit SpanLabels(const StepProgram& program);  // must outlive the object

  // The following return a span of pipeline rank `rank` without name, depth and time.
  Span slot(std::size_t rank, std::size_t op) const;
  // sent_bytes: what the GPU sends in a segment of communication or collectives; 0: not known.
  Span segment(std::size_t rank, std::size_t op, std::size_t segment, double sent_bytes);
  // Returns operator `index` of the segment whose span is `place`.
  Span kernel(const Span& place, std::size_t op, std::size_t segment, std::size_t index);
  // sent_bytes: what a GPU sends of the message.
  Span message(std::size_t rank, const Transfer& sent, double sent_bytes);
  // Returns a span of the optimizer's stream: a collective of data parallelism, of this class, or work after the slots.
  Span outside_slots(std::size_t rank, std::string_view name, std::int32_t stage = -1,
                     const std::string& class_name = "collective", double sent_bytes = 0);

  // Fills works and layers of a timeline whose spans came from here.
  void describe(Timeline& timeline) const;

 private:
  using WorkKey = std::tuple<std::uint16_t, std::size_t, std::size_t>;  // template, segment, operator + 1 or 0
  std::int32_t chunk_of(std::size_t rank, std::int32_t direction, std::int32_t stage) const;
  const Segment& segment_of(std::size_t rank, std::size_t op, std::size_t segment) const;
  SpanWork work_of(const Segment& segment, double sent_bytes) const;
  std::int32_t add_work(const SpanWork& work);

  const StepProgram& program_;
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> chunks_;  // [rank]: direction, stage
  std::map<WorkKey, std::int32_t> known_;
  std::map<std::pair<std::string, double>, std::int32_t> collectives_;  // by class and bytes
  std::int32_t message_ = -1;                                           // the work of a message, once there was one
  std::vector<SpanWork> works_;
};

}  // namespace plumbline::model
