# Mail server (the thesis' mailserver): mails come in, are synced, read and deleted; one directory.
set $dir=/filebench
set $nfiles=1000
set $dirwidth=1000000
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $nthreads=16
set $iosize=1m
set $appendsize=16k
define fileset name=tree,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$dirwidth,prealloc=80
define process name=main,instances=1 {
  thread name=worker,memsize=10m,instances=$nthreads {
    flowop deletefile name=delete1,filesetname=tree
    flowop createfile name=create1,filesetname=tree,fd=1
    flowop appendfilerand name=append1,iosize=$appendsize,fd=1
    flowop fsync name=fsync1,fd=1
    flowop closefile name=close1,fd=1
    flowop openfile name=open2,filesetname=tree,fd=1
    flowop readwholefile name=read2,fd=1,iosize=$iosize
    flowop appendfilerand name=append2,iosize=$appendsize,fd=1
    flowop fsync name=fsync2,fd=1
    flowop closefile name=close2,fd=1
    flowop openfile name=open3,filesetname=tree,fd=1
    flowop readwholefile name=read3,fd=1,iosize=$iosize
    flowop closefile name=close3,fd=1
  }
}
