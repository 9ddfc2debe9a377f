// The gradient: tokens are listed row by row (counted, then placed), and the block of a row's first place adds its
// tokens in ascending order. Where tokens stand within a row's part of the list is decided by a race, so the block puts
// a short list in order itself and reads a long one off the ids anew.
#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"

namespace mt::ops::cuda {

namespace {

struct Lookup {
  Elements weight, places, out;
  const std::int32_t *ids, *positions;
  Count first_id, held;
  __device__ void operator()(Count token, Count at, int count) const {
    const Count row = ids[token] - first_id;
    float x[kGroup] = {}, p[kGroup];
    if (row >= 0 && row < held) load(weight, row, at, count, x);
    if (places.data != nullptr) {
      load(places, positions[token], at, count, p);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) x[i] = p[i] + x[i];
    }
    store(out, token, at, count, x);
  }
};

constexpr unsigned kScanThreads = 1024, kRowThreads = 128;
constexpr int kShort = 256;  // tokens of a row that are put in order in shared memory

// Scratch of a backward: all i32.
struct Lists {
  const std::int32_t* ids;
  Count tokens, first_id, held;
  int *start, *next, *list;  // [held + 1], [held], [tokens]
  __device__ Count row(Count token) const {
    const Count r = ids[token] - first_id;
    return r >= 0 && r < held ? r : -1;
  }
};

__global__ void clear_counts(Lists l) {
  const Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < l.held) l.next[i] = 0;
}

__global__ void count_tokens(Lists l) {
  const Count t = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= l.tokens) return;
  if (const Count row = l.row(t); row >= 0) atomicAdd(l.next + row, 1);
}

// start[row] = tokens of the rows before; one block. Then next[row] = start[row].
__global__ void start_rows(Lists l) {
  auto* sums = shared_mem<int>();
  const Count each = (l.held + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * each,
              end = begin + each < l.held ? begin + each : l.held;
  int sum = 0;
  for (Count i = begin; i < end; ++i) sum += l.next[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned reach = 1; reach < blockDim.x; reach *= 2) {
    const int before = threadIdx.x >= reach ? sums[threadIdx.x - reach] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  int at = threadIdx.x > 0 ? sums[threadIdx.x - 1] : 0;
  for (Count i = begin; i < end; ++i) {
    const int count = l.next[i];
    l.start[i] = l.next[i] = at;
    at += count;
  }
  if (threadIdx.x == blockDim.x - 1) l.start[l.held] = sums[threadIdx.x];
}

__global__ void place_tokens(Lists l) {
  const Count t = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= l.tokens) return;
  if (const Count row = l.row(t); row >= 0) l.list[atomicAdd(l.next + row, 1)] = static_cast<int>(t);
}

// The row's tokens [from, from + kShort), in order: those of a short list by rank, of a long one as the ids have them.
__device__ int tokens_in_order(const Lists& l, Count row, int first, int count, Count& scanned, int* ordered) {
  if (count <= kShort) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      const int token = l.list[first + i];
      int rank = 0;
      for (int j = 0; j < count; ++j) rank += l.list[first + j] < token;
      ordered[rank] = token;
    }
    __syncthreads();
    return count;
  }
  // Every warp looks at all ids and finds the same.
  int found = 0;
  while (scanned < l.tokens && found + 32 <= kShort) {
    const Count t = scanned + threadIdx.x % 32;
    const bool hit = t < l.tokens && l.row(t) == row;
    const unsigned hits = __ballot_sync(kLaneMask, hit), before = hits & ((1u << (threadIdx.x % 32)) - 1);
    if (hit && threadIdx.x < 32) ordered[found + __popc(before)] = static_cast<int>(t);
    found += __popc(hits);
    scanned += 32;
  }
  __syncthreads();
  return found;
}

// A block for a place of the list and a strip of columns, a group a thread; the sum stays f32 until all tokens are in.
__global__ void add_rows(Lists l, Elements dout, Elements dweight, Count columns) {
  const int place = static_cast<int>(blockIdx.x);
  if (place >= l.start[l.held]) return;
  const Count row = l.row(l.list[place]);
  const int first = l.start[row], count = l.start[row + 1] - first;
  if (first != place) return;
  auto* ordered = shared_mem<int>();
  const Count at = (static_cast<Count>(blockIdx.y) * blockDim.x + threadIdx.x) * kGroup, rest = columns - at;
  const int n = rest <= 0 ? 0 : rest < kGroup ? static_cast<int>(rest) : kGroup;
  float sum[kGroup] = {}, more[kGroup];
  if (n > 0) load(dweight, row, at, n, sum);
  Count scanned = 0;
  for (int done = 0; done < count;) {
    const int here = tokens_in_order(l, row, first, count, scanned, ordered);
    if (n > 0) {
#pragma unroll 4
      for (int i = 0; i < here; ++i) {
        load(dout, ordered[i], at, n, more);
#pragma unroll
        for (int j = 0; j < kGroup; ++j) sum[j] += more[j];
      }
    }
    done += here;
    if (done < count) __syncthreads();
  }
  if (n > 0) store(dweight, row, at, n, sum);
}

}  // namespace

void embedding_forward(const Stream& stream, const EmbeddingForwardArgs& g) {
  each_group(stream, g.out.dim(0), g.out.dim(1),
             Lookup{elements(g.weight), elements(g.position_weight), elements(g.out),
                    static_cast<const std::int32_t*>(g.ids.data), static_cast<const std::int32_t*>(g.positions.data),
                    g.first_id, g.weight.dim(0)});
}

void embedding_backward(const Stream& stream, const EmbeddingBackwardArgs& g) {
  const Count tokens = g.dout.dim(0), held = g.dweight.dim(0);
  if (tokens == 0 || held == 0 || g.dout.dim(1) == 0) return;
  auto* memory = reinterpret_cast<int*>(mt::cuda::scratch(stream, static_cast<std::size_t>(2 * held + 1 + tokens) * 4));
  const Lists l{static_cast<const std::int32_t*>(g.ids.data),
                tokens,
                g.first_id,
                held,
                memory,
                memory + held + 1,
                memory + 2 * held + 1};
  const auto blocks = [](Count n) { return static_cast<unsigned>(ceil_div(n, kThreads)); };
  launch(stream, clear_counts, {.x = blocks(held), .threads = kThreads}, l);
  launch(stream, count_tokens, {.x = blocks(tokens), .threads = kThreads}, l);
  launch(stream, start_rows, {.threads = kScanThreads, .shared_bytes = kScanThreads * sizeof(int)}, l);
  launch(stream, place_tokens, {.x = blocks(tokens), .threads = kThreads}, l);
  launch(stream, add_rows,
         {.x = static_cast<unsigned>(tokens),
          .y = static_cast<unsigned>(ceil_div(g.dout.dim(1), kRowThreads * kGroup)),
          .threads = kRowThreads,
          .shared_bytes = kShort * sizeof(int)},
         l, elements(g.dout), elements(g.dweight), g.dout.dim(1));
}

}  // namespace mt::ops::cuda
