// Prints the size of the MPI world it finds itself in.
#include <cstdio>

#include <mpi.h>

int main(int argc, char** argv) {
  int size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::printf("%d\n", size);
  MPI_Finalize();
}
