// Ranks of a node that read each other's memory, emulated by two streams of one GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "real/cuda/kernels/all_to_all/all_to_all.h"
#include "real/cuda/memory.h"
#include "tests/gpu/gpu.h"

namespace plumbline::tests {
namespace {

using namespace real::cuda;

constexpr int peers = 2;
constexpr std::int64_t words = 100'000, turns_bytes = 4096, bytes = words * 4;

struct Peer {
  DeviceMemory memory, arrived;  // counters and send buffer; what was read from both send buffers
  cudaStream_t stream = nullptr;

  std::uint32_t* turns() const { return memory.as<std::uint32_t>(); }
  char* outbox() const { return memory.as<char>() + turns_bytes; }
};

class GpuPeers : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_TRUE(ended_.allocate(sizeof(std::int32_t)).ok());
    *ended_.as<std::int32_t>() = 0;
    for (Peer& peer : peers_) {
      ASSERT_TRUE(peer.memory.allocate(turns_bytes + bytes).ok());
      ASSERT_TRUE(peer.arrived.allocate(peers * bytes).ok());
      ASSERT_EQ(cudaMemset(peer.turns(), 0, turns_bytes), cudaSuccess);
      ASSERT_EQ(cudaStreamCreateWithFlags(&peer.stream, cudaStreamNonBlocking), cudaSuccess);
    }
    load_kernels();
  }
  void TearDown() override {
    for (const Peer& peer : peers_)
      if (peer.stream != nullptr) cudaStreamDestroy(peer.stream);
  }

  // Launches each kernel once. CUDA loads the code of a kernel at its first launch, which waits for all kernels that
  // run: one of them that waits for a peer whose kernels are launched later would never end.
  void load_kernels() {
    const Peer& self = peers_[0];
    PeerBarrier alone{.peers = 1, .own = 0, .turn = 0, .ended = ended_.as<std::int32_t>()};
    alone.turns[0] = self.turns();
    const Piece piece{self.outbox(), self.arrived.as<char>(), bytes};
    ASSERT_EQ(cudaMemsetAsync(self.outbox(), 0, bytes, self.stream), cudaSuccess);
    ASSERT_EQ(peer_barrier(alone, self.stream), cudaSuccess);
    ASSERT_EQ(copy_pieces(&piece, 1, Blocks{4, 0}, self.stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
  }

  void barrier_with_others(int own, std::uint32_t turn) {
    PeerBarrier barrier{.peers = peers, .own = own, .turn = turn, .ended = ended_.as<std::int32_t>()};
    for (std::size_t peer = 0; peer < peers; ++peer) barrier.turns[peer] = peers_[peer].turns();
    ASSERT_EQ(peer_barrier(barrier, peers_[static_cast<std::size_t>(own)].stream), cudaSuccess);
  }

  PinnedMemory ended_;
  std::array<Peer, peers> peers_;
};

TEST_F(GpuPeers, ReadWhatWasWrittenBeforeTheBarrier) {
  constexpr std::uint32_t rounds = 5;
  const Blocks blocks{4, 0};
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (int own = 0; own < peers; ++own) {
      const Peer& self = peers_[static_cast<std::size_t>(own)];
      const int value = static_cast<int>(round) * peers + own + 1;
      ASSERT_EQ(cudaMemsetAsync(self.outbox(), value, bytes, self.stream), cudaSuccess);
      barrier_with_others(own, 2 * round + 1);
      std::vector<Piece> pieces;
      for (std::size_t peer = 0; peer < peers; ++peer)
        pieces.push_back({peers_[peer].outbox(), self.arrived.as<char>() + peer * bytes, bytes});
      ASSERT_EQ(copy_pieces(pieces.data(), peers, blocks, self.stream), cudaSuccess);
      barrier_with_others(own, 2 * round + 2);
    }
    for (const Peer& self : peers_) {
      std::vector<std::uint8_t> got(peers * bytes);
      ASSERT_EQ(cudaMemcpyAsync(got.data(), self.arrived.as<char>(), got.size(), cudaMemcpyDeviceToHost, self.stream),
                cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], round * peers + i / bytes + 1) << "byte " << i;
    }
  }
}

// A kernel that waits for a lost rank ends.
TEST_F(GpuPeers, WaitUntilTheRunEnds) {
  barrier_with_others(0, 1);
  EXPECT_EQ(cudaStreamQuery(peers_[0].stream), cudaErrorNotReady);
  *static_cast<volatile std::int32_t*>(ended_.as<std::int32_t>()) = 1;
  EXPECT_EQ(cudaStreamSynchronize(peers_[0].stream), cudaSuccess);
}

}  // namespace
}  // namespace plumbline::tests
