/* A small program whose calls take flags, directories, forks and threads of control that each form of strace writes in its way. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct stat st;
	struct statx stx;
	struct iovec parts[2] = {{"one", 3}, {"three", 5}};
	int dir, file, copy;
	pid_t child;
	char *map;

	if (argc < 2 || chdir(argv[1]) || mkdir("d", 0755))
		return 1;
	dir = open("d", O_RDONLY | O_DIRECTORY);
	file = openat(dir, "a, \"b\"", O_RDWR | O_CREAT | O_APPEND, 0644);
	write(file, "hello = 3\n) = -1 <x>", 20);
	pwrite(file, "xy", 2, 0);
	lseek(file, 1, SEEK_CUR);
	lseek(file, 0, SEEK_END);
	fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 8192);
	map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	msync(map, 4096, MS_SYNC);
	munmap(map, 4096);
	fstat(file, &st);
	stat("d", &st);
	statx(AT_FDCWD, "d", 0, STATX_SIZE, &stx);
	fcntl(file, F_SETFL, O_RDWR);
	lseek(file, 4, SEEK_SET);
	copy = fcntl(file, F_DUPFD_CLOEXEC, 10);
	child = fork();
	if (!child) {
		write(file, "abcd", 4);
		if (!fork()) {
			writev(file, parts, 2);
			_exit(0);
		}
		wait(0);
		fsync(file);
		_exit(0);
	}
	waitpid(child, 0, 0);
	write(file, "tail", 4);
	if (!vfork())
		_exit(0);
	wait(0);
	pwritev2(copy, parts, 2, -1, RWF_APPEND);
	renameat2(dir, "a, \"b\"", AT_FDCWD, "d/b", RENAME_NOREPLACE);
	open("missing", O_RDONLY);
	unlinkat(dir, "b", 0);
	write(file, "gone", 4);
	ftruncate(file, 3);
	close(copy);
	close(file);
	close(dir);
	return unlinkat(AT_FDCWD, "d", AT_REMOVEDIR);
}
