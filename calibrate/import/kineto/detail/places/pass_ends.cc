#include "calibrate/import/kineto/detail/places/pass_ends.h"

#include <algorithm>
#include <array>
#include <string>

namespace plumbline::calibrate {

PassEnds::PassEnds(const Trace& trace, const std::vector<std::size_t>& work,
                   const std::vector<std::string_view>& class_names, const AttentionStream& stream)
    : trace_(trace), work_(work), class_names_(class_names), stream_(stream) {
  for (std::size_t i = 0; i < work.size(); ++i)
    if (class_names[i] == "send_receive") messages_ns_.push_back(trace.work[work[i]].start_ns);
  std::ranges::sort(messages_ns_);
}

std::size_t PassEnds::behind_loss(std::size_t first, std::size_t end) const {
  std::size_t split = first;
  for (std::size_t item = first; item < end; ++item) {
    const std::size_t i = stream_.items[item];
    const std::string& name = trace_.names.text(trace_.work[work_[i]].name);
    if (class_names_[i] == "loss" && name.find("ackward") == std::string::npos) split = item + 1;
  }
  return split;
}

std::size_t PassEnds::behind_message(std::size_t first, std::size_t end) const {
  const auto piece = [this](std::size_t item) -> const GpuWork& { return trace_.work[work_[stream_.items[item]]]; };
  const GpuWork& last = piece(first - 1);
  const auto sent = std::ranges::lower_bound(messages_ns_, last.start_ns + last.duration_ns);
  if (sent == messages_ns_.end()) return first;
  std::size_t split = first;
  while (split < end && piece(split).start_ns < *sent) ++split;
  return split == end ? first : split;
}

bool PassEnds::between_directions() const {
  constexpr std::array<std::string_view, 4> of_experts = {"dispatch_kernel", "combine_kernel", "permute",
                                                          "router_topk"};
  const auto expert = [&](std::string_view kind) { return std::ranges::find(of_experts, kind) != of_experts.end(); };
  if (std::ranges::any_of(class_names_, expert)) return false;
  const std::vector<Anchor>& anchors = stream_.anchors;
  for (std::size_t a = 0; a + 1 < anchors.size(); ++a) {
    if (anchors[a].kind != Attention::forward || anchors[a + 1].kind != Attention::backward) continue;
    const std::size_t first = anchors[a].last + 1, end = anchors[a + 1].first;
    if (behind_loss(first, end) == first && behind_message(first, end) == first) return false;
  }
  return true;
}

}  // namespace plumbline::calibrate
