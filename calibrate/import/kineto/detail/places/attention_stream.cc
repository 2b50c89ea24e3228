#include "calibrate/import/kineto/detail/places/attention_stream.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

namespace plumbline::calibrate {
namespace {

class StreamReader {
 public:
  StreamReader(const Trace& trace, const std::vector<std::size_t>& work,
               const std::vector<std::string_view>& class_names)
      : trace_(trace), work_(work), class_names_(class_names) {
    fused_ = std::ranges::any_of(class_names, [](std::string_view kind) { return kind.starts_with("attn_"); });
  }

  AttentionStream read() {
    const int stream = busiest();
    for (std::size_t i = 0; i < work_.size(); ++i)
      if (piece(i).stream == stream && !piece(i).copy) add(i);
    find_anchors();
    return std::move(found_);
  }

 private:
  const GpuWork& piece(std::size_t i) const { return trace_.work[work_[i]]; }

  // Returns the direction of an attention kernel: 1 forward, -1 backward, 0 none.
  int direction(std::size_t i) const {
    const std::string_view kind = class_names_[i];
    if (kind == "attn_fwd") return 1;
    if (kind.starts_with("attn_bwd")) return -1;
    if (fused_ || kind == "loss") return 0;
    const std::string& name = trace_.names.text(piece(i).name);
    if (name.find("softmax") == std::string::npos) return 0;
    return name.find("ackward") == std::string::npos ? 1 : -1;
  }

  // Returns the stream with the most time in attention.
  int busiest() const {
    std::map<int, std::int64_t> attention_ns;
    for (std::size_t i = 0; i < work_.size(); ++i)
      if (direction(i) != 0) attention_ns[piece(i).stream] += piece(i).duration_ns + 1;
    if (attention_ns.empty()) return 0;
    return std::ranges::max_element(attention_ns, {}, [](const auto& entry) { return entry.second; })->first;
  }

  void add(std::size_t i) {
    found_.items.push_back(i);
    const std::string_view kind = class_names_[i].empty() ? trace_.names.text(piece(i).name) : class_names_[i];
    const auto symbol = numbers_.try_emplace(kind, static_cast<std::uint32_t>(numbers_.size())).first->second;
    found_.symbols.push_back(symbol);
    if (class_names_[i].find("gemm") != std::string_view::npos) found_.gemm_symbols.insert(symbol);
    if (kind.find("norm") != std::string_view::npos) found_.norm_symbols.insert(symbol);
  }

  void find_anchors() {
    std::vector<Anchor>& anchors = found_.anchors;
    bool gemm = true;  // since the last anchor
    for (std::size_t item = 0; item < found_.items.size(); ++item) {
      gemm = gemm || found_.is_gemm(item);
      const int way = direction(found_.items[item]);
      if (way == 0) continue;
      const Attention kind = way > 0 ? Attention::forward : Attention::backward;
      if (gemm || anchors.empty() || anchors.back().kind != kind) anchors.push_back({item, item, kind});
      anchors.back().last = item;
      gemm = false;
    }
  }

  const Trace& trace_;
  const std::vector<std::size_t>& work_;
  const std::vector<std::string_view>& class_names_;
  bool fused_ = false;
  AttentionStream found_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace

AttentionStream attention_stream(const Trace& trace, const std::vector<std::size_t>& work,
                                 const std::vector<std::string_view>& class_names) {
  return StreamReader(trace, work, class_names).read();
}

std::vector<std::pair<std::size_t, std::size_t>> join_recomputed(AttentionStream& stream) {
  std::vector<std::pair<std::size_t, std::size_t>> joined;
  std::vector<Anchor> anchors;
  for (const Anchor& anchor : stream.anchors) {
    const bool after_recomputed = !anchors.empty() && anchors.back().kind == Attention::recomputed;
    bool gemm = false;
    for (std::size_t item = after_recomputed ? anchors.back().last : anchor.first; item < anchor.first; ++item)
      gemm = gemm || stream.is_gemm(item);
    if (!after_recomputed || gemm || anchor.kind != Attention::backward) {
      anchors.push_back(anchor);
      continue;
    }
    joined.emplace_back(anchors.back().first, anchors.back().last);
    anchors.back() = {joined.back().first, anchor.last, Attention::backward};
  }
  stream.anchors = std::move(anchors);
  return joined;
}

}  // namespace plumbline::calibrate
