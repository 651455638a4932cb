// A preload that lets allocations of host memory fail which libstalloc.so asks for: the FAILING_HOST_FIRST-th (from 1)
// and the next FAILING_HOST_COUNT - 1 of them (default 1; 0: all from there on). With FAILING_HOST_TOLD naming a file,
// it writes there at exit how many there were. Others' allocations are left alone: by the address of the caller.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static atomic_long asked;
static atomic_uintptr_t begin, end;  // of libstalloc.so, once it is there

static int Note(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  (void)data;
  if (strstr(info->dlpi_name, "libstalloc.so") == NULL) return 0;
  uintptr_t last = 0;
  for (int k = 0; k < info->dlpi_phnum; ++k) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[k];
    if (part->p_type == PT_LOAD && info->dlpi_addr + part->p_vaddr + part->p_memsz > last)
      last = info->dlpi_addr + part->p_vaddr + part->p_memsz;
  }
  atomic_store(&end, last);
  atomic_store(&begin, info->dlpi_addr);
  return 1;
}

static long Number(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atol(text) : otherwise;
}

static int Fails(const void* caller) {
  static atomic_int looking;
  if (atomic_load(&begin) == 0 && !atomic_exchange(&looking, 1)) {
    dl_iterate_phdr(Note, NULL);
    atomic_store(&looking, 0);
  }
  const uintptr_t at = (uintptr_t)caller;
  if (atomic_load(&begin) == 0 || at < atomic_load(&begin) || at >= atomic_load(&end)) return 0;
  const long number = atomic_fetch_add(&asked, 1) + 1;
  const long first = Number("FAILING_HOST_FIRST", 0);
  const long count = Number("FAILING_HOST_COUNT", 1);
  if (first == 0 || number < first || (count != 0 && number >= first + count)) return 0;
  errno = ENOMEM;
  return 1;
}

#define CALLER __builtin_return_address(0)

void* malloc(size_t bytes) { return Fails(CALLER) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return Fails(CALLER) ? NULL : __libc_calloc(count, bytes); }
void* realloc(void* block, size_t bytes) { return Fails(CALLER) ? NULL : __libc_realloc(block, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return Fails(CALLER) ? NULL : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  if (Fails(CALLER)) return ENOMEM;
  *block = __libc_memalign(alignment, bytes);
  return *block == NULL ? ENOMEM : 0;
}

__attribute__((destructor)) static void Tell(void) {
  const char* path = getenv("FAILING_HOST_TOLD");
  const int file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
  if (file < 0) return;
  char text[32];
  const int size = snprintf(text, sizeof text, "%ld\n", atomic_load(&asked));
  if (write(file, text, (size_t)size) != size) _exit(99);
  close(file);
}
