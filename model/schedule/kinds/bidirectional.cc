#include "model/schedule/kinds/bidirectional.h"

#include <deque>
#include <utility>

#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {
namespace {

class RankProgram {
 public:
  explicit RankProgram(const BidirectionalRank& rank)
      : rank_(rank), half_(rank.inner_ranks), distance_(rank.distance) {}

  void write() {
    fill();
    steady();
    drain();
  }

  std::vector<ScheduleOp> take_ops() { return std::move(ops_); }
  std::vector<Posting> take_postings() { return std::move(postings_); }

 private:
  void fill();    // steps 1 to 3
  void steady();  // step 4
  void drain();   // steps 5 to 8

  std::int32_t next() const { return static_cast<std::int32_t>(ops_.size()); }
  bool middle() const { return distance_ == half_ - 1; }

  void forward(std::int32_t side) {
    ops_.push_back(forward_op(rank_.direction[side], rank_.stage[side], forwards_[side]++));
  }
  void backward(std::int32_t side, OpType type) {
    ops_.push_back(backward_op(type, rank_.direction[side], rank_.stage[side], backwards_[side]++));
    if (type == OpType::I) open_weights_.push_back(ops_.back());
  }
  void weight() {
    ops_.push_back(open_weights_.front());
    ops_.back().type = OpType::W;
    open_weights_.pop_front();
  }
  void pair(std::int32_t forward_side, std::int32_t backward_side) {
    forward(forward_side);
    ScheduleOp& op = ops_.back();
    op.type = OpType::FB;
    op.b_dir = rank_.direction[backward_side];
    op.b_stage = rank_.stage[backward_side];
    op.b_mb = backwards_[backward_side]++;
  }
  // Posts the message of an op's forward, as a send or a receive, with batch `batch`.
  void post_send(std::int32_t op, std::int32_t batch) { postings_.push_back({op, true, true, batch}); }
  void post_receive(std::int32_t op, std::int32_t batch) { postings_.push_back({op, false, true, batch}); }

  BidirectionalRank rank_;
  std::int32_t half_, distance_;
  std::int32_t forwards_[2] = {0, 0}, backwards_[2] = {0, 0};
  std::deque<ScheduleOp> open_weights_;  // weight gradients that remain after their input gradients
  std::vector<ScheduleOp> ops_;
  std::vector<Posting> postings_;
};

// In step 2 a rank posts the receive of its next F0 with the batch of F1. An outer rank sends the result of F0 only
// after F1, together with the result of F1. Sent right after F0 it would block F1, whose input comes from the rank that
// waits: with blocking batches the pipeline would deadlock.
void RankProgram::fill() {
  for (std::int32_t i = 0; i < 2 * (half_ - distance_ - 1); ++i) forward(0);
  for (std::int32_t i = 0; i <= distance_; ++i) {
    if (i > 0) post_receive(next(), next() - 1);
    if (!middle()) post_send(next(), next() + 2);
    forward(0);
    if (middle() && i == distance_) post_send(next(), next() + 2);
    forward(1);
  }
  const std::int32_t last_forward = next() - 1;
  for (std::int32_t i = 0; i < half_ - distance_ - 1; ++i) {
    backward(1, OpType::I);
    post_receive(next() + 1, next());
    weight();
    forward(1);
  }
  post_receive(next(), last_forward);  // the F0 that opens step 4
}

// The innermost ranks run their first pair one after the other, which shortens the bubble.
void RankProgram::steady() {
  for (std::int32_t i = 0; i < rank_.pairs; ++i) {
    if (i == 0 && middle()) {
      post_send(next(), next() + 2);
      forward(0);
      backward(1, OpType::B);
    } else {
      pair(0, 1);
    }
    pair(1, 0);
  }
}

// From the middle of step 6 on backwards are split, so that their weight gradients fill the gaps of step 7.
void RankProgram::drain() {
  for (std::int32_t i = 0; i < half_ - distance_ - 1; ++i) {
    backward(1, OpType::B);
    pair(1, 0);
  }
  const std::int32_t switch_at = (distance_ + 1) / 2;
  const bool before_side_1 = distance_ % 2 == 1;
  for (std::int32_t i = 0; i <= distance_; ++i) {
    const bool split_1 = i > switch_at || (i == switch_at && before_side_1);
    backward(1, split_1 ? OpType::I : OpType::B);
    backward(0, i >= switch_at ? OpType::I : OpType::B);
  }
  for (std::int32_t i = 0; i < half_ - distance_ - 1; ++i) {
    weight();
    backward(0, OpType::I);
  }
  for (std::int32_t i = 0; i <= distance_; ++i) weight();
}

}  // namespace

void append_bidirectional(const BidirectionalRank& rank, Schedule& schedule) {
  RankProgram program(rank);
  program.write();
  schedule.ranks.push_back(program.take_ops());
  schedule.postings.push_back(program.take_postings());
}

}  // namespace plumbline::model
