#pragma once
// A communicator over accelerators by NCCL, made from any host communicator, which carries ids and agreement.
//
// Operations run on streams of their own, which go before others (device/message_stream.h). Starting one queues it behind what `stream` holds; Handle::wait(stream) makes
// that stream wait for an event; neither blocks the host. wait_host() and test() ask the event. Views of host memory may
// be given too: they, and barriers, go through the host communicator, after what `stream` holds is done.
//
// Groups of the same rank list share one NCCL communicator and stream, which live as long as the world. Messages between
// neighbours in the ring of a pipeline (kPipeline, kChannelPrefix) have a communicator for each channel, pair and
// direction, made with the group, so that none waits for another. All other messages are staged through the host
// (comm/staged.h): to meet a peer, NCCL would need both ranks to be at their first message at the same time. The trainer
// sends none of these from device memory: a stage's neighbours, and the first and last, are neighbours in the ring.
// Making a group connects it, with an operation of one byte, so that later ones do not wait for the host of a peer.
//
// Sums and the promises of comm/communicator.h:
//   rank_order_sums   reduce-scatter is an all-to-all and a kernel that adds in rank order, all-reduce adds an all-gather:
//                     the bits of every other backend. Up to 2 KiB an all-reduce is one all-gather
//   else              ncclReduceScatter, ncclAllReduce: equal on all ranks of a group, but the order of additions is
//                     NCCL's, may change with counts, ranks and version, and bf16 and f16 are rounded at every hop. Runs
//                     in two layouts then differ as their summation orders do: within promise 1's bounds in f32
//   max over f32      always by that kernel, as NCCL does not promise that a NaN wins; max and sums of integers are NCCL's
// One call moves at most max_chunk_bytes to a peer; counts are 64-bit.
//
// Collectives may lie inside graphs of the device (comm/graph_operations.h), if all ranks have them there: one watched
// operation a communicator and launch, named by its first.
//
// Fails: a thread watches for NCCL's asynchronous errors and for operations older than timeout_s. It aborts every
// communicator of this rank, so nothing that waits for the device hangs, and from then on every call, wait, test and
// progress() throws Error{comm} naming group, operation, its number, bytes, this rank, and who has not entered: ranks of
// this process by name, those of this host in the words of the status page. Results of operations that were aborted are
// undefined, and nobody reads them: the next call throws.
// Code: comm/nccl/ (comm/absent/nccl_absent.cc where NCCL or CUDA is off). Tests: tests/comm/nccl_test.cc and the
// conformance suite, on tests/cuda_emulation/nccl.cc; tests/gpu.sh on real devices.

#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace mt::comm {

// Why NCCL cannot be used here: no NCCL in this build, or its library does not open; empty when it can.
// Opens the library (libnccl.so.2) the first time.
std::string nccl_why_not();
// NCCL's version, as 22809 for 2.28.9.   needs  nccl_why_not() empty
int nccl_version();
// Tells devices of a job apart: ranks with equal keys are on one device, which NCCL refuses.   needs  as above
std::uint64_t nccl_device_key(Device device);

struct NcclOptions {
  bool rank_order_sums = false;
};

// Collective over `host`, and so is make_group of what it gives.
//   needs  nccl_why_not() empty; a device of its own for every rank; `host` outlives it
//   fails  Error{comm} when NCCL fails, or ranks do not come within timeout_s of host.options()
std::unique_ptr<Communicator> nccl_world(Communicator& host, Device device, const NcclOptions& options = {});

}  // namespace mt::comm
