/* The init of a guest whose root is a folder of the host: loads modules, mounts that folder, runs a script by its shell.
 *
 * /modules lists modules in their order, /script is the script.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char line[256], script[1 << 16];

static void check(int good, const char *what)
{
    if (good)
        return;
    printf("\nguest: failed: %s: errno %d\n", what, errno);
    reboot(RB_POWER_OFF);
    pause();
}

static void load_modules(void)
{
    FILE *list = fopen("/modules", "r");
    while (list && fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = 0;
        int fd = open(line, O_RDONLY | O_CLOEXEC);
        check(fd >= 0 && syscall(SYS_finit_module, fd, "", 0) == 0, line);
        close(fd);
    }
}

int main(void)
{
    char *words[] = {"sh", "-c", script, NULL}, *environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    int status, fd = open("/script", O_RDONLY | O_CLOEXEC);
    check(fd >= 0 && read(fd, script, sizeof script - 1) > 0, "/script");
    close(fd);
    load_modules();
    mkdir("/host", 0755);
    check(mount("host", "/host", "virtiofs", MS_RDONLY, "") == 0, "mount of the host's root");
    check(chroot("/host") == 0 && chdir("/") == 0, "chroot");
    if (fork() == 0) {
        execve("/bin/sh", words, environment);
        _exit(127);
    }
    while (wait(&status) > 0)
        ;
    printf("\nguest: ended\n");
    reboot(RB_POWER_OFF);
    pause();
}
