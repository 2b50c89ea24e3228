#include <gtest/gtest.h>

#include "sim/campaign/closed_form.h"

namespace plumbline::sim {
namespace {

// 16 GPUs of two nodes copy 10 GB/s each to their hosts and send 5 GB/s; the storage takes 100 GB/s.
CheckpointPolicy policy_of(CheckpointKind kind, double bytes, bool on_ssd = false) {
  model::ClusterShape cluster;
  cluster.gpus = 16;
  cluster.gpus_per_node = 8;
  cluster.nics_per_node = 8;
  cluster.nic_bandwidth = model::BytesPerSecond{5e9};
  cluster.device.host_bandwidth = model::BytesPerSecond{10e9};
  const CheckpointStorage storage{
      .all = 100e9, .ssd = 200e9, .every = 20, .stall_s = 0.5, .neighbor_stall_s = 0.125, .commit_s = 2};
  return checkpoint_policy(kind, on_ssd, bytes, cluster, storage);
}

TEST(Checkpoint, OfNoBytesStillTakesTime) {
  const CheckpointPolicy asynchronous = policy_of(CheckpointKind::asynchronous, 0);
  EXPECT_EQ(asynchronous.stall_s, 0.5);
  EXPECT_EQ(asynchronous.write_s, 2.5);
  EXPECT_EQ(policy_of(CheckpointKind::synchronous, 0).stall_s, 2.5);
  EXPECT_EQ(policy_of(CheckpointKind::neighbor, 0).write_s, 0.125);
}

TEST(Checkpoint, AddsTheTimesOfItsBytes) {
  constexpr double bytes = 800e9;  // 50 GB a GPU: 5 s to its host, 8 s to the storage, 10 s to a neighbor
  const CheckpointPolicy synchronous = policy_of(CheckpointKind::synchronous, bytes);
  EXPECT_DOUBLE_EQ(synchronous.stall_s, 0.5 + 5 + 8 + 2);
  EXPECT_DOUBLE_EQ(synchronous.write_s, synchronous.stall_s);
  EXPECT_DOUBLE_EQ(synchronous.load_s, 5 + 8);
  const CheckpointPolicy asynchronous = policy_of(CheckpointKind::asynchronous, bytes);
  EXPECT_DOUBLE_EQ(asynchronous.stall_s, 0.5 + 5);
  EXPECT_DOUBLE_EQ(asynchronous.write_s, synchronous.write_s);
  const CheckpointPolicy neighbor = policy_of(CheckpointKind::neighbor, bytes);
  EXPECT_DOUBLE_EQ(neighbor.stall_s, 0.125 + 5);
  EXPECT_DOUBLE_EQ(neighbor.write_s, 0.125 + 5 + 10);
  EXPECT_DOUBLE_EQ(neighbor.storage_write_s, neighbor.write_s + 8 + 2);
  EXPECT_DOUBLE_EQ(policy_of(CheckpointKind::asynchronous, bytes, true).write_s, 0.5 + 5 + 2 + 2);
}

}  // namespace
}  // namespace plumbline::sim
